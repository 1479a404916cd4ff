"""The frame of every stage: read params, write the report, exit with the code in paddleship.errors."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from paddleship.config import loading, preflight, workspace_paths
from paddleship.config.params import Params
from paddleship.custody import seals
from paddleship.custody.links import LINKS
from paddleship.errors import BadInput, GateFailed, PaddleshipError
from paddleship.reports import gate
from paddleship.reports.report import Report
from paddleship.shipped.computing import files
from paddleship.shipped.computing.paddle_logs import silence_paddle
from paddleship.shipped.computing.references import user_line
from paddleship.stage import user_code
from paddleship.system import defects, disk, host, locks, output, source_imports

_TERMINATED = 143

Verb = Callable[[Params], Report]


def run(verb: Verb, values: Params) -> Report:
    """Run one stage and write its report. If its verdict failed, no later stage reads its out, and GateFailed is raised."""
    started_at, clock = datetime.now(UTC), time.perf_counter()
    report = verb(values)
    report.started_at = started_at
    report.seconds = round(time.perf_counter() - clock, 3)
    report.host = host.fingerprint()
    report.verdict = gate.verdict(report, values.verify.fail_on)
    report.write(Path(values.paths.reports))
    for finding in report.serious():
        print(f"{report.stage}: {finding}")
    if not report.verdict:
        if (link := LINKS.get(report.stage)) and link.out:
            seals.revoke(link.folder(values))
        reasons = "; ".join(str(check) for check in report.verdict.failures)
        raise GateFailed(f"{report.stage}: {reasons} (evidence: {Path(values.paths.reports).absolute() / report.stage}.json)")
    return report


def main(verb: Verb, *, imports_user_code: bool = True) -> None:
    """The main function of `python -m tasks.<verb>`: run in the folder that holds params.yaml, and exit by the outcome.

    The folder of the user's code is on the import path only if the stage imports it, so that no package in it hides a library.
    """
    output.print_any_character()
    parser = argparse.ArgumentParser(prog=f"python -m tasks.{verb.__name__}", description=verb.__doc__)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="params file (default: params.yaml)")
    arguments = parser.parse_args()
    silence_paddle()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # so that containers and unfinished outs are cleaned up
    try:
        report = _run_here(verb, arguments.params, imports_user_code=imports_user_code)
    except PaddleshipError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as end:
        if end.code == _TERMINATED:
            raise
        where = user_line(end) or "a line that is unknown"
        print(f"error: your code called sys.exit({end.code!r}) at {where}: let it raise an error instead", file=sys.stderr)
        sys.exit(BadInput.exit_code)
    except Exception as error:
        line, code = defects.report(error, what=verb.__name__, folder=Path("reports"))
        print(f"error: {line}", file=sys.stderr)
        sys.exit(code)
    print(f"{report.stage}: {report.headline} ({report.seconds:.1f} s)")


def _run_here(verb: Verb, path: Path, *, imports_user_code: bool) -> Report:
    """Run one stage with a params file, alone in this folder. A disk that is full or not writable is Unavailable, not a defect."""
    try:
        preflight.require_one_build()
        values = loading.load(path)
        workspace_paths.require_inside(values, Path.cwd())
        source_imports.compile_anew()
        if imports_user_code or values.data.functions:
            user_code.add(Path(values.code.root))
        with files.home(), locks.only_one(Path(values.paths.reports) / f".{verb.__name__}.lock", what=verb.__name__):
            return run(verb, values)
    except (OSError, PaddleshipError) as error:
        if outside := disk.unavailable(error, what=verb.__name__):
            raise outside from error
        raise
