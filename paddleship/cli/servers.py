"""`paddleship ui`, `stop`, `deploy`, `worker` and `deliver`: the servers of a checkout, and reports that they have not received."""

from __future__ import annotations

import click

from paddleship.cli.command_context import open_checkout


@click.command()
def deliver() -> int:
    """Send reports to MLflow that it did not receive while it was unavailable."""
    _, local = open_checkout()
    from paddleship.tracking.run import deliver as send

    sent = send(local.spool, tracking_uri=local.tracking_uri())
    print("\n".join(f"delivered run {run_id}" for run_id in sent) or "nothing to deliver: MLflow has everything")
    return 0


@click.command()
def ui() -> int:
    """Start Prefect and MLflow on loopback, and register the deployments."""
    _, local = open_checkout()
    print("starting Prefect and MLflow")
    addresses = local.start()
    from paddleship.orchestration import deployment

    deployment.deploy(local)
    for name, url in addresses.items():
        print(f"{name:8}{url}")
    print("run it:  make worker, and in another terminal: .venv/bin/prefect deployment run develop-to-deploy/local --watch")
    return 0


@click.command()
def deploy() -> int:
    """Register the deployments with the Prefect server of PREFECT_API_URL."""
    _, local = open_checkout()
    from paddleship.orchestration import deployment

    deployment.deploy(local)
    return 0


@click.command()
@click.option("--pool", default="local", show_default=True, help="docker: the training image; any other name: processes")
@click.option("--limit", type=int, metavar="N", help="run at most N flow runs at a time  [default: as many as the pool allows]")
def worker(pool: str, limit: int | None) -> int:
    """Run a worker for the deployments of a work pool, in the foreground."""
    _, local = open_checkout()
    from paddleship.orchestration import deployment

    return deployment.work(local, pool=pool, limit=limit)


@click.command()
def stop() -> int:
    """Stop what `ui` started."""
    _, local = open_checkout()
    stopped = local.stop()
    print(f"stopped {', '.join(stopped)}" if stopped else "no server of paddleship is running")
    return 0
