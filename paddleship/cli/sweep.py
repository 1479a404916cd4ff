"""`paddleship sweep`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from paddleship.cli import options
from paddleship.cli.command_context import end, load_flow, open_checkout, run_flow
from paddleship.config import params_overlay

_SETTINGS = {
    "method": ("grid|random|optuna", "all combinations of lists, at random, or near the best variants so far"),
    "trials": ("N", "most variants"),
    "parallel": ("N", "variants that run at the same time"),
    "until": ("benchmark|package|accept", "the last stage of every variant; accept registers the best one"),
    "choose": ("score|latency|size", "what the best variant is best in"),
}
"""Keys of the section `sweep` of params.yaml, which says what they may be."""


def _settings(command: Callable[..., int]) -> Callable[..., int]:
    for name, (values, text) in reversed(_SETTINGS.items()):
        command = click.option(f"--{name}", metavar=values, help=f"{text}  [default: as in params.yaml]")(command)
    return command


@click.command()
@options.OVERLAY
@_settings
@click.option("--commit", metavar="NAME", help="a commit, branch or tag to run  [default: the checked-out commit]")
@click.option("--deployment", metavar="NAME", help="let workers run the variants, such as develop-to-deploy/local")
def sweep(params: str | None, commit: str | None, deployment: str | None, **settings: Any) -> int:
    """Run variants of the params, compare their scores, latencies and sizes, and choose one.

    The section `sweep` of params.yaml names the variants.
    """
    checkout, local = open_checkout()
    from paddleship.orchestration import sweep_params

    overlay = params_overlay.path_in(checkout, params)
    chosen = {name: value for name, value in settings.items() if value is not None}
    sweep_params.read(checkout, params_file=overlay, settings=chosen, commit=commit)  # a mistake needs no Prefect server
    flow = load_flow(checkout, local, "flows.sweep").sweep
    return end(run_flow(local, flow, settings=chosen or None, params_file=overlay, commit=commit, deployment=deployment))
