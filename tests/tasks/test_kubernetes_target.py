"""What a promotion does with a cluster: with a program in the place of kubectl; tests/e2e/test_cluster.py has a real one."""

import json

import pytest
import yaml

from paddleship.config.sections.promote import Target
from paddleship.errors import Unavailable
from paddleship.promotion.ledger import Shipped
from paddleship.rollout.kubernetes_target import KubernetesTarget

KUBECTL = """#!/bin/sh
echo "$*" >>calls
case "$*" in
*apply*) [ ! -e unreachable ] || { echo "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout" >&2; exit 1; } ;;
*rollout*) ! grep -q "$(cat broken || echo none)" k.yaml || { echo "error: timed out waiting for the condition" >&2; exit 1; } ;;
*"get pods"*) cat pods.json ;;
esac
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/kubectl"
    program.write_text(KUBECTL)
    program.chmod(0o755)
    (tmp_path / "pods.json").write_text('{"items": []}')
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def target(**settings):
    given = {"kind": "kubernetes", "name": "m", "manifest": "k.yaml", "context": "lab", "namespace": "models", **settings}
    return KubernetesTarget(Target(**given), memory_bytes=10**9, ready_timeout_s=20)


def shipped(version):
    reference = f"registry.example.com/m@sha256:{version * 64}"
    return Shipped(model="m", version=version, image="m:1", image_id="sha256:1", candidate_digest="d" * 64, reference=reference)


def described(folder):
    """The version that the manifest on disk describes."""
    return next(yaml.safe_load_all((folder / "k.yaml").read_text()))["metadata"]["annotations"]["paddleship.io/model-version"]


def calls(folder):
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_a_manifest_is_applied_in_the_context_and_the_namespace_and_waited_for(folder):
    target().roll_out(shipped("2"), before=shipped("1"))
    assert described(folder) == "2"
    assert calls(folder) == [
        "--context=lab --namespace=models apply --filename k.yaml",
        "--context=lab --namespace=models rollout status deployment/m --timeout=100s",
    ]


def test_without_a_context_the_manifest_is_written_and_nothing_is_applied(folder):
    target(context=None).roll_out(shipped("2"), before=shipped("1"))
    assert (described(folder), calls(folder)) == ("2", [])


def test_servers_that_do_not_become_ready_are_replaced_by_the_former_ones_and_the_reason_is_named(folder):
    (folder / "broken").write_text("2" * 64)
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    (folder / "pods.json").write_text(json.dumps({"items": [{"status": {"containerStatuses": [{"state": state}]}}]}))
    words = r"not all new servers were ready within 100 s \(ImagePullBackOff: no such image\); version 1 serves again"
    with pytest.raises(Unavailable, match=words):
        target().roll_out(shipped("2"), before=shipped("1"))
    assert described(folder) == "1"
    assert [line.split()[2] for line in calls(folder)] == ["apply", "rollout", "get", "apply", "rollout"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]}, "OOMKilled: see its log"),
        ({"conditions": [{"reason": "Unschedulable", "message": "0/3 nodes are free"}]}, "Unschedulable: 0/3 nodes are free"),
        ({"containerStatuses": [{"state": {"running": {}}}]}, "timed out waiting for the condition"),
    ],
)
def test_the_first_version_that_does_not_start_is_told_with_what_the_cluster_says(folder, status, said):
    (folder / "broken").write_text("1" * 64)
    (folder / "pods.json").write_text(json.dumps({"items": [{"status": status}]}))
    with pytest.raises(Unavailable, match=said):
        target().roll_out(shipped("1"), before=None)
    assert described(folder) == "1"


def test_a_cluster_that_does_not_answer_is_named_with_its_context_and_nothing_is_said_to_serve_again(folder):
    (folder / "unreachable").touch()
    words = (
        r"kubectl apply in the context 'lab' failed \(Unable to connect.*i/o timeout\).*; the manifest of version 1 cannot be applied again"
    )
    with pytest.raises(Unavailable, match=words):
        target().roll_out(shipped("2"), before=shipped("1"))


def test_a_machine_without_kubectl_is_told_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable, match=r"kubectl is not on PATH: install it, or set promote.target.context: null"):
        target().roll_out(shipped("1"), before=None)
