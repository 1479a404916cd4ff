"""Where the champion runs in a Kubernetes cluster: `kubectl` applies the manifest, and the cluster replaces the servers one by one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from paddleship.config.sections.promote import Target
from paddleship.errors import Unavailable
from paddleship.promotion import manifest
from paddleship.promotion.ledger import Shipped
from paddleship.shipped.computing.files import write_text

_REQUEST_S = 30
_MARGIN_S = 30  # to pull the image and to schedule the pods


class KubernetesTarget:
    """One Deployment with its Service, as a manifest. Every method may be repeated after a crash at any point."""

    def __init__(self, settings: Target, *, memory_bytes: int, ready_timeout_s: float) -> None:
        self._settings, self._memory_bytes = settings, memory_bytes
        self._limit_s = settings.replicas * (ready_timeout_s + _MARGIN_S)

    def roll_out(self, shipped: Shipped, *, before: Shipped | None) -> None:
        """Write the manifest; with a context, apply it and return when the rollout is complete.

        Raises Unavailable if that fails, after it has applied the manifest of the image that served before.
        """
        self._write(shipped)
        if self._settings.context is None:
            return
        try:
            self._apply()
        except Unavailable as trouble:
            if before is None:
                raise
            self._write(before)
            try:
                self._apply()
            except Unavailable:
                raise Unavailable(f"{trouble}; the manifest of version {before.version} cannot be applied again either") from None
            raise Unavailable(f"{trouble}; version {before.version} serves again") from None

    def _write(self, shipped: Shipped) -> None:
        write_text(Path(self._settings.manifest), manifest.manifest(self._settings, shipped, memory_bytes=self._memory_bytes))

    def _apply(self) -> None:
        self._kubectl("apply", "--filename", self._settings.manifest)
        name, limit = f"deployment/{self._settings.name}", f"--timeout={self._limit_s:.0f}s"
        try:
            self._kubectl("rollout", "status", name, limit, timeout_s=self._limit_s + _REQUEST_S)
        except Unavailable as trouble:
            raise Unavailable(f"not all new servers were ready within {self._limit_s:.0f} s ({self._obstacle() or trouble})") from None

    def _obstacle(self) -> str | None:
        """Why a container does not start, as the cluster reports it; None if it reports nothing."""
        selector = f"app.kubernetes.io/name={self._settings.name}"
        try:
            pods = json.loads(self._kubectl("get", "pods", "--selector", selector, "--output", "json"))["items"]
        except Unavailable:
            return None
        reasons = [reason for pod in pods if (reason := _reason(pod["status"]))]
        return reasons[0] if reasons else None

    def _kubectl(self, *arguments: str, timeout_s: float = _REQUEST_S) -> str:
        where = [f"--context={self._settings.context}", f"--namespace={self._settings.namespace}"]
        try:
            done = subprocess.run(
                ["kubectl", *where, *arguments], capture_output=True, encoding="utf-8", errors="replace", timeout=timeout_s, check=False
            )
        except FileNotFoundError:
            raise Unavailable(
                "kubectl is not on PATH: install it, or set promote.target.context: null to apply the manifest yourself"
            ) from None
        except subprocess.TimeoutExpired:
            raise Unavailable(f"kubectl {arguments[0]} did not end within {timeout_s:.0f} s: check the cluster") from None
        if done.returncode:
            message = (done.stderr.strip().splitlines() or ["no reason given"])[-1].removeprefix("error: ").removeprefix("Error ")
            raise Unavailable(
                f"kubectl {arguments[0]} in the context {self._settings.context!r} failed ({message[:300]}): check the cluster"
            )
        return done.stdout


def _reason(status: dict[str, Any]) -> str | None:
    """The reason why a pod is not scheduled, or one of its containers does not run."""
    for container in status.get("containerStatuses", []):
        state = container.get("state", {})
        waiting = state.get("waiting", state.get("terminated", {}))
        if waiting.get("reason") not in (None, "ContainerCreating", "Completed"):
            return f"{waiting['reason']}: {waiting.get('message', 'see its log')}"[:300]
    for condition in status.get("conditions", []):
        if condition.get("reason") == "Unschedulable":
            return f"Unschedulable: {condition.get('message', '')}"[:300]
    return None
