"""`paddleship compare` and `paddleship compare-graph-modes`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from paddleship.cli.command_context import end, load_flow, open_checkout, run_flow
from paddleship.config.graph_modes import ModeName, NetworkName
from paddleship.errors import GateFailed


@click.command()
@click.argument("earlier", type=Path)
@click.argument("later", type=Path, required=False)
def compare(earlier: Path, later: Path | None) -> int:
    """Compare two benchmarks: which candidate became faster or slower.

    EARLIER and LATER are folders of benchmarks, with samples.parquet and samples.json; LATER is by default that of params.yaml here.
    """
    from paddleship.benchmark import samples
    from paddleship.config import loading
    from paddleship.statistics.estimates import Difference

    changes = samples.compare(earlier, later or Path(loading.load(Path("params.yaml")).paths.benchmark))
    print(f"{'speedup over the baseline':26} {'earlier':>8} {'later':>8}   change")
    print("\n".join(map(str, changes)) or "no participant is in both")
    return GateFailed.exit_code if any(change.difference == Difference.WORSE for change in changes) else 0


@click.command("compare-graph-modes")
@click.option("--full", is_flag=True, help="sizes for GPUs")
@click.option("--networks", multiple=True, type=click.Choice(get_args(NetworkName)), help="once per network  [default: as in params.yaml]")
@click.option("--modes", multiple=True, type=click.Choice(get_args(ModeName)), metavar="MODE", help="once per mode  [default: all]")
@click.option("--rounds", type=int, metavar="N", help="interleaved blocks  [default: as in params.yaml]")
@click.option("--threads", type=int, metavar="N", help="threads and cores of every mode")
@click.option("--torch-site", metavar="FOLDER", help="site-packages of PyTorch where it is not installed beside Paddle")
def compare_graph_modes(networks: tuple[str, ...], modes: tuple[str, ...], **settings: Any) -> int:
    """Benchmark eager and static graphs of Paddle and PyTorch on this machine."""
    checkout, local = open_checkout()
    from paddleship.config import loading

    flow = load_flow(checkout, local, "flows.compare_graph_modes").compare_graph_modes
    state = run_flow(local, flow, networks=list(networks) or None, modes=list(modes) or None, **settings)
    if not state.is_completed():
        return end(state)
    print(f"{state.message}: see {loading.load(checkout / 'params.yaml').paths.reports}/compare-graph-modes.md")
    return 0
