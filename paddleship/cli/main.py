"""`paddleship`: the commands, and the exit code of each outcome (see paddleship/errors.py)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click

from paddleship.cli import benchmarks, doctor, drift, images, pipeline, promotion, runs, servers, sweep, trace
from paddleship.errors import BadInput, Cancelled, PaddleshipError
from paddleship.execution import startup
from paddleship.orchestration import terminal
from paddleship.system import defects, disk, output


@click.group(no_args_is_help=False, context_settings={"max_content_width": 120})
def commands() -> None:
    """From an eager PaddlePaddle model to a proven, hardened image."""


for command in (
    *(pipeline.run, pipeline.ci, doctor.doctor, benchmarks.compare, benchmarks.compare_graph_modes, trace.trace, runs.runs, images.images),
    *(sweep.sweep, promotion.sign, promotion.promote, promotion.rollback, promotion.ledger, drift.drift),
    *(servers.deliver, servers.ui, servers.deploy, servers.worker, servers.stop),
):
    commands.add_command(command)


def main() -> None:
    """Parse, run one command, exit by its outcome; a user's mistake is one line, and so is a defect, whose traceback is in a file."""
    output.print_any_character()
    startup.keep_what_they_make()
    terminal.survive_closed_output()
    try:
        with disk.full_is_unavailable("paddleship"):
            sys.exit(commands.main(prog_name="paddleship", standalone_mode=False))
    except click.UsageError as mistake:
        command = mistake.ctx.command_path if mistake.ctx else "paddleship"
        _fail(f"{_one_line(mistake.format_message())} (see `{command} --help`)", BadInput.exit_code)
    except PaddleshipError as error:
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted: what is finished is kept, so the same command continues after it", Cancelled.exit_code)
    except Exception as error:
        _fail(*defects.report(error, what="paddleship", folder=Path("reports")))


def _one_line(message: str) -> str:
    return " ".join(f"{message[:1].lower()}{message[1:]}".split()).rstrip(".")


def _fail(message: str, code: int) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
