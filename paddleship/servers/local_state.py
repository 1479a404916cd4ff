"""Defaults of a checkout: where Prefect and MLflow keep their state, and which servers a run uses."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paddleship.errors import BadInput
from paddleship.servers import background
from paddleship.servers.background import ServerProcess
from paddleship.shipped.computing.files import write_text
from paddleship.system import own_folder
from paddleship.system.state_folder import FOLDER

HEARTBEAT_S = 30  # seconds between heartbeats of a flow run; after three missing ones it counts as crashed
_JOBS = "MLFLOW_SERVER_ENABLE_JOB_EXECUTION"  # of MLflow's GenAI part: eight processes and a gigabyte that are not used here
_TEMPORARY = {
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT_UI_ENABLED": "0",
    # Block types are for its pages; to look for them, it imports every integration of Prefect that is installed, which takes a second.
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "0",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "0",
}
_OURS = {"PYTHONSAFEPATH": "1"}  # the server's code is that of this installation, not of the folder that it starts in
_OUR_SETTINGS = "# Written by `make ui`, removed by `make stop`.\n"


_DVC_STATE = "DVC_SITE_CACHE_DIR"  # by default a folder of all users, who could write into each other's
_SHARED = Path("/var/tmp")  # noqa: S108 only the user's own folder below it is used


@dataclass(frozen=True)
class Local:
    """The state folder of one checkout, and the ports of its servers."""

    checkout: Path
    prefect_port: int = 4200
    mlflow_port: int = 5000

    @classmethod
    def of(cls, checkout: Path) -> Local:
        """With the ports in PREFECT_PORT and MLFLOW_PORT. Raises BadInput."""
        return cls(checkout, _port("PREFECT_PORT", 4200), _port("MLFLOW_PORT", 5000))

    @property
    def identity(self) -> str:
        """The name of this checkout in an MLflow that several share."""
        return f"{platform.node()}:{self.checkout}"

    @property
    def state(self) -> Path:
        return self.checkout / FOLDER

    @property
    def prefect_home(self) -> Path:
        return self.state / "prefect"

    @property
    def spool(self) -> Path:
        return self.state / "spool"

    @property
    def unpushed(self) -> Path:
        """A file that exists while the remote lacks data of a run."""
        return self.state / "unpushed"

    @property
    def artifact_root(self) -> str:
        return (self.state / "artifacts").as_uri()

    def prefect_url(self) -> str | None:
        """The API of the user's PREFECT_API_URL, or of the server that `start` started; None without one."""
        ours = background.running(self.state, "prefect")
        return os.environ.get("PREFECT_API_URL") or (f"{ours}/api" if ours else None)

    def tracking_uri(self) -> str:
        """The user's MLFLOW_TRACKING_URI, otherwise the server that `start` started, otherwise SQLite in the checkout."""
        self.state.mkdir(exist_ok=True)
        return os.environ.get("MLFLOW_TRACKING_URI") or background.running(self.state, "mlflow") or self._store

    def use(self) -> None:
        """Point this process's Prefect to the available server, and to the state in the checkout.

        Call it before Prefect is imported.
        """
        if url := self.prefect_url():
            os.environ["PREFECT_API_URL"] = url
        else:
            self._forget_server()  # the server died, and Prefect would still use its address
        self.prefect_home.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("PREFECT_HOME", str(self.prefect_home))
        _keep_dvc_state_private()
        os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
        os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", str(HEARTBEAT_S))

    def serve(self) -> Callable[[], None]:
        """Start a Prefect server for this process if none is available; the returned object waits until it answers.

        Call it before Prefect is imported, and `wait` afterwards, because both take seconds. Raises Unavailable, also while waiting.
        """
        self.use()
        if address := self.prefect_url():
            return lambda: background.require(address, name="Prefect", variable="PREFECT_API_URL")
        port = background.free_port()
        url = f"http://127.0.0.1:{port}"
        name, environment = "Prefect's temporary server", {**_TEMPORARY, **_OURS}
        wait = background.temporary(name, _prefect_server(port), health=f"{url}/api/health", environment=environment)
        os.environ |= {"PREFECT_API_URL": f"{url}/api", "PREFECT_UI_URL": ""}  # it has no pages to link to
        return wait

    def start(self) -> dict[str, str]:
        """Start both servers if they do not run yet. Returns their addresses for a browser. Raises Unavailable."""
        from paddleship.tracking import store

        store.prepare(self._store)  # a server that is killed while it creates its tables leaves a store that nothing opens
        prefect, mlflow = self._prefect().start(), self._mlflow().start()
        if not self._client_settings.exists() or self._client_settings.read_text(encoding="utf-8").startswith(_OUR_SETTINGS):
            write_text(self._client_settings, f'{_OUR_SETTINGS}[api]\nurl = "{prefect}/api"\n')
        else:
            print(f"prefect.toml is yours, so plain `prefect` commands use its server: for this one, set PREFECT_API_URL={prefect}/api")
        return {"Prefect": prefect, "MLflow": mlflow}

    def stop(self) -> list[str]:
        """Stop the servers that `start` started. Returns their names."""
        self._forget_server()
        return [name for name in ("prefect", "mlflow") if background.stop(self.state, name)]

    def running(self) -> dict[str, str]:
        """The browser addresses of the running servers."""
        names = {"Prefect": "prefect", "MLflow": "mlflow"}
        return {title: url for title, name in names.items() if (url := background.running(self.state, name))}

    @property
    def _store(self) -> str:
        return f"sqlite:///{self.state / 'mlflow.db'}"

    @property
    def _client_settings(self) -> Path:
        """The settings file with which a plain `prefect …` in the checkout uses our server; it exists while the server runs."""
        return self.checkout / "prefect.toml"

    def _forget_server(self) -> None:
        """Remove the settings file, unless somebody else wrote it."""
        if self._client_settings.exists() and self._client_settings.read_text(encoding="utf-8").startswith(_OUR_SETTINGS):
            self._client_settings.unlink()

    def _prefect(self) -> ServerProcess:
        api = f"http://127.0.0.1:{self.prefect_port}/api"
        return ServerProcess(
            name="prefect",
            state=self.state,
            port=self.prefect_port,
            port_variable="PREFECT_PORT",
            command=_prefect_server(self.prefect_port),
            health="/api/health",
            environment={
                **_OURS,
                "PREFECT_HOME": str(self.prefect_home),
                "PREFECT_API_URL": api,
                "PREFECT_SERVER_UI_API_URL": api,  # otherwise the page would use port 4200
                "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            },
        )

    def _mlflow(self) -> ServerProcess:
        store = ["--backend-store-uri", self._store, "--artifacts-destination", self.artifact_root]
        return ServerProcess(
            name="mlflow",
            state=self.state,
            port=self.mlflow_port,
            port_variable="MLFLOW_PORT",
            command=[_program("mlflow"), "server", "--host", "127.0.0.1", "--port", str(self.mlflow_port), "--workers", "1", *store],
            health="/health",
            environment={_JOBS: os.environ.get(_JOBS, "false")},
        )


def _prefect_server(port: int) -> list[str]:
    return [sys.executable, "-m", "paddleship.servers.prefect_server", str(port)]


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _port(variable: str, default: int) -> int:
    value = os.environ.get(variable) or str(default)
    if not value.isdigit() or not 0 < int(value) < 65536:
        raise BadInput(f"{variable} must be a port from 1 to 65535 (got {value!r}): set another")
    return int(value)


def _keep_dvc_state_private() -> None:
    if _DVC_STATE not in os.environ and os.access(_SHARED, os.W_OK):
        os.environ[_DVC_STATE] = str(own_folder.below(_SHARED) / "dvc")
