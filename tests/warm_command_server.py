"""`python warm_command_server.py ADDRESS PID`: import what the commands import, and fork a process for each that is asked for.

The fork comes back from `serve` and runs its command at the end of this file, so that it ends as a program does. This process has one
thread: it never forks while another thread holds a lock.
"""

import contextlib
import importlib
import json
import logging
import os
import selectors
import signal
import socket
import sys
import warnings
from pathlib import Path

_AT_START = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GLOG_minloglevel": "2",
}
_PRELOAD = (
    *("fastapi", "httpx", "rich.console", "rich.table", "alembic", "docker", "ruamel.yaml", "networkx", "psutil", "pynvml"),
    *(
        "mlflow",
        "mlflow.cli",
        "flask",
        "graphene",
        "mlflow.store.tracking.sqlalchemy_store",
        "mlflow.store.model_registry.sqlalchemy_store",
        "mlflow.data.meta_dataset",
    ),
    *(
        "paddle",
        "onnx",
        "paddle2onnx",
        "pandas",
        "pyarrow.parquet",
        "pyarrow.dataset",
        "scipy.stats",
        "matplotlib.figure",
        "matplotlib.backends.backend_agg",
        "sklearn.feature_extraction.text",
        "sklearn.linear_model",
        "sklearn.pipeline",
        "sklearn.preprocessing",
        "tritonclient.http",
    ),
    *("dvc.repo", "dvc.cli", "dvc.cli.parser", "dvc.commands.repro", "dvc.api", "dvc.repo.datasets", "dvc.repo.plots", "dvc.dirs"),
    *(
        "paddleship.cli.command_context",
        "paddleship.cli.ci_report",
        "paddleship.cli.run_tables",
        "paddleship.execution.cleanup",
        "paddleship.cli.promotion",
        "paddleship.orchestration.deployment",
        "paddleship.rollout.rollback",
        "paddleship.orchestration.drift_check",
    ),
    *(
        "paddleship.stage.fingerprint",
        "paddleship.cli.image_lineage",
        "paddleship.tracking.run",
        "paddleship.config.preflight",
        "paddleship.config.catalogue",
    ),
)
_FLOWS = tuple(f"flows.{name}" for name in ("pipeline", "promote", "sweep", "retrain"))
_PREFECT = tuple(
    f"prefect.{name}"
    for name in (
        *("main", "artifacts", "deployments", "flow_engine", "input", "runtime", "task_engine"),
        *(
            "cli.deploy",
            "cli.server",
            "cli.work_pool",
            "cli.worker",
            "engine",
            "runner._workspace_supervisor",
            "workers.process",
            "server.api.server",
            "server.database.query_components",
        ),
    )
)


def serve(address, owner):
    """Answer until the process with the id `owner` has ended; in each child, return the request that it is for."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    owner_ended = os.pidfd_open(owner)
    selector.register(owner_ended, selectors.EVENT_READ)
    print("warm", flush=True)
    children = {}
    while True:
        for key, _ in selector.select():
            if key.fd == owner_ended:
                for pid, _caller in children.values():
                    os.kill(pid, signal.SIGKILL)
                sys.exit()
            if key.fileobj is listener:
                caller, _ = listener.accept()
                message, descriptors, _, _ = socket.recv_fds(caller, 1 << 20, 64)
                pid = os.fork()
                if pid == 0:  # what is still open as an object would close a descriptor of the command when it is collected
                    for ours in (selector, listener, caller, *(other for _pid, other in children.values())):
                        ours.close()
                    os.setsid()
                    return json.loads(message), descriptors
                for descriptor in descriptors:
                    os.close(descriptor)
                ended = os.pidfd_open(pid)
                children[ended] = pid, caller
                selector.register(ended, selectors.EVENT_READ)
                _tell(caller, pid)
            else:
                pid, caller = children.pop(key.fd)
                selector.unregister(key.fd)
                os.close(key.fd)
                _tell(caller, os.waitpid(pid, 0)[1])
                caller.close()


def _tell(caller, number):
    with contextlib.suppress(BrokenPipeError):  # it was killed
        caller.sendall(f"{number}".encode())


def _import_prefect():
    """Import Prefect and the flows without Prefect's settings, which `Local.use` sets before a command imports it.

    Importing it reads them in two places: the global context, which each command reads at first use, and at the end of `prefect.main`,
    to set up logging: each command imports that module.
    """
    import prefect
    from prefect import context
    from prefect.logging import configuration

    set_up, configuration.setup_logging = configuration.setup_logging, lambda: None
    for name in (*_PREFECT, "prefect_docker", "prefect_kubernetes", *_FLOWS):
        importlib.import_module(name)
    configuration.setup_logging = set_up
    del sys.modules["prefect.main"], prefect.main
    read = vars(context.SettingsContext)["get"]

    def first(kind):
        kind.get = read
        del context.GLOBAL_SETTINGS_CONTEXT
        context.refresh_global_settings_context()
        return kind.get()

    context.SettingsContext.get = classmethod(first)


def _draw(folder):
    """Let charts find fonts and the parser of labels ready."""
    from paddleship.plots import charts

    charts.noise({"eager": 1.0}, 8.0, folder, "noise.png")


def _read_one_certificate(path):
    """Let clients find one certificate in place of all: reading them takes each 0.02 s, and tests ask servers on loopback by HTTP."""
    import certifi

    end = "-----END CERTIFICATE-----\n"
    path.write_text(certifi.contents().partition(end)[0] + end)
    certifi.where = lambda: str(path)


if __name__ == "__main__":
    os.environ.update(_AT_START | {"PREFECT_HOME": str(Path(sys.argv[1]).parent)})
    sys.path[0] = str(Path(__file__).parents[1])
    with warnings.catch_warnings(action="ignore"):
        for name in _PRELOAD:
            importlib.import_module(name)
        _import_prefect()
    _read_one_certificate(Path(sys.argv[1]).with_name("certificate.pem"))
    logging.getLogger().handlers.clear()  # paddle2onnx adds one
    from tests import warm, warm_command, warm_fork

    for name in warm.library():
        importlib.import_module(name)
    _draw(Path(sys.argv[1]).with_name("chart"))
    warm_fork.prepare()
    threads = list(Path("/proc/self/task").iterdir())
    if len(threads) != 1:
        sys.exit(f"the warm process has {len(threads)} threads: one of {_PRELOAD} starts them")
    request = serve(sys.argv[1], int(sys.argv[2]))
    warm_command.take_over()
    warm_fork.be(*request)
