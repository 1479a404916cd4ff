"""Prefect's Kubernetes worker without a cluster: `python pods.py POOL FOLDER` runs each job that it makes as a process in FOLDER.

The job's manifest, command and environment are those that the cluster would get. What the cluster adds to them, it is not: image, limits,
security context, mounted Secrets.
"""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

from prefect_kubernetes.worker import KubernetesWorker


class Pods(KubernetesWorker):
    folder = Path()

    @asynccontextmanager
    async def _get_configured_kubernetes_client(self, _configuration):
        yield None

    async def _create_job(self, configuration, _client):
        name = configuration.job_manifest["metadata"]["generateName"] + "1"
        (self.folder / "job.json").write_text(json.dumps(configuration.job_manifest))
        (container,) = configuration.job_manifest["spec"]["template"]["spec"]["containers"]
        place = self.folder / name
        place.mkdir()
        program = {"python": sys.executable}.get(container["args"][0], container["args"][0])
        given = {one["name"]: one["value"] for one in container["env"]} | {"HOME": str(place), "TMPDIR": str(place)}
        with (self.folder / "pod.log").open("a") as log:
            subprocess.Popen([program, *container["args"][1:]], cwd=place, env=os.environ | given, stdout=log, stderr=log)
        return SimpleNamespace(metadata=SimpleNamespace(name=name, namespace=configuration.namespace))


if __name__ == "__main__":
    Pods.folder = Path(sys.argv[2])
    os.environ["PREFECT_INTEGRATIONS_KUBERNETES_OBSERVER_ENABLED"] = "false"
    asyncio.run(Pods(work_pool_name=sys.argv[1]).start(with_healthcheck=False))
