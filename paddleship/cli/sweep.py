"""`paddleship sweep`."""

from __future__ import annotations

import argparse
from typing import Any

from paddleship.cli.command_context import end, here, load_flow, run_flow
from paddleship.config import params_overlay

_SETTINGS = {
    "method": ("grid|random|optuna", "all combinations of lists, at random, or near the best variants so far"),
    "trials": ("N", "most variants"),
    "parallel": ("N", "variants that run at the same time"),
    "until": ("benchmark|package|accept", "the last stage of every variant; accept registers the best one"),
    "choose": ("score|latency|size", "what the best variant is best in"),
}
"""Keys of the section `sweep` of params.yaml, which says what they may be."""


def add(commands: Any) -> None:
    """The command and what it is given."""
    sweep = commands.add_parser("sweep", help="run variants of the params, compare their scores, latencies and sizes, and choose one")
    sweep.add_argument("--params", metavar="FILE", help="a file laid over params.yaml; its section `sweep` names the variants")
    for name, (values, words) in _SETTINGS.items():
        sweep.add_argument(f"--{name}", metavar=values, help=f"{words} (default: as in params.yaml)")
    sweep.add_argument("--commit", metavar="NAME", help="a commit, branch or tag to run (default: the checked-out commit)")
    sweep.add_argument("--deployment", metavar="NAME", help="let workers run the variants, such as develop-to-deploy/local")
    sweep.set_defaults(command=_sweep)


def _sweep(arguments: argparse.Namespace) -> int:
    checkout, local = here()
    from paddleship.orchestration import sweep_params

    overlay = params_overlay.path_in(checkout, arguments.params)
    settings = {name: value for name in _SETTINGS if (value := getattr(arguments, name)) is not None}
    sweep_params.read(checkout, params_file=overlay, settings=settings, commit=arguments.commit)  # a mistake needs no Prefect server
    flow = load_flow(checkout, local, "flows.sweep").sweep
    given = {"params_file": overlay, "commit": arguments.commit, "deployment": arguments.deployment}
    return end(run_flow(local, flow, settings=settings or None, **given))
