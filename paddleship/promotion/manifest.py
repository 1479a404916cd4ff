"""A Kubernetes manifest of the champion, by digest."""

from __future__ import annotations

from typing import Any

import yaml

from paddleship.config.sections.promote import Target
from paddleship.promotion.ledger import Shipped

_PORT = 8000
_LEAVE = "import os, signal, time; os.kill(1, signal.SIGUSR1); time.sleep(5)"
_HEAD = "# Written by `paddleship promote` or `rollback`. Where no context is set, apply it with `kubectl apply -f`.\n"


def manifest(target: Target, shipped: Shipped, *, memory_bytes: int) -> str:
    """A Deployment that replaces its pods one by one as they get ready, and the Service before it."""
    labels = {"app.kubernetes.io/name": target.name}
    meta = {"name": target.name, "namespace": target.namespace, "labels": labels}
    notes = {"paddleship.io/model-version": shipped.version, "paddleship.io/candidate-digest": shipped.candidate_digest}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**meta, "annotations": notes},
        "spec": {
            "replicas": target.replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": {"metadata": {"labels": labels, "annotations": notes}, "spec": _pod(target, shipped, memory_bytes)},
        },
    }
    ports = [{"name": "http", "port": target.port, "targetPort": "http"}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": labels, "ports": ports}}
    return _HEAD + yaml.safe_dump_all([deployment, service], sort_keys=False)


def _pod(target: Target, shipped: Shipped, memory_bytes: int) -> dict[str, Any]:
    """One server, locked down as `accept` runs it.

    Before it ends, it sends its clients away for a few seconds: those with open connections, and those that still reach it.
    """
    ready = {"httpGet": {"path": "/v2/health/ready", "port": "http"}, "periodSeconds": 2, "timeoutSeconds": 30}
    live = {"httpGet": {"path": "/v2/health/live", "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 60, "failureThreshold": 6}
    container = {
        "name": "server",
        "image": shipped.reference,
        "ports": [{"name": "http", "containerPort": _PORT}],
        "readinessProbe": ready,
        "livenessProbe": live,
        "lifecycle": {"preStop": {"exec": {"command": ["python", "-c", _LEAVE]}}},
        "resources": {"requests": {"memory": str(memory_bytes)}, "limits": {"memory": str(memory_bytes)}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 a folder of the container
    }
    return {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": int(target.drain_s) + 10,
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
    }
