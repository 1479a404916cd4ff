"""fingerprint: write the installed versions and the machine into files that later stages depend on."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from paddleship.config import catalogue, params, workspace_paths
from paddleship.config.params import Params
from paddleship.custody import libraries
from paddleship.errors import PaddleshipError
from paddleship.shipped.common.files import write_text
from paddleship.system import host


def fingerprint(values: Params, root: Path = Path()) -> None:
    """Write the versions of libraries that compute, and the machine (or that any machine is accepted), below `root`.

    A file that would not change is not written, so that stages stay up to date. Raises ParamsError for a path that leaves `root`, and for a
    name in optimize.candidates that no runtime registers.
    """
    workspace_paths.require_inside(values, root)
    catalogue.require_known(values.optimize.candidates)
    versions = libraries.versions()
    machine = host.fingerprint() if values.benchmark.host == "here" else {"host": "any"}
    for path, facts in ((values.paths.environment, versions), (values.paths.host, machine)):
        _write(root / path, json.dumps(facts, indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.fingerprint", description=fingerprint.__doc__)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="params file (default: params.yaml)")
    try:
        fingerprint(params.load(parser.parse_args().params))
    except PaddleshipError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
