"""The manifest against the schemas of Kubernetes, by a validator that others wrote."""

import kubernetes_validate
import pytest
import yaml

from paddleship.config.sections.promote import Target
from paddleship.promotion import manifest
from paddleship.promotion.ledger import Shipped

DIGEST = "registry.example.com/team/m@sha256:" + "1" * 64


@pytest.fixture
def made():
    shipped = Shipped(model="m", version="3", image="m:1", image_id="sha256:1", candidate_digest="d" * 64, reference=DIGEST)
    return manifest.manifest(Target(kind="kubernetes", name="reviews", port=80), shipped, memory_bytes=1_000_000_000)


def test_every_object_is_valid_and_the_image_is_named_by_digest(made):
    deployment, service = yaml.safe_load_all(made)
    for item in (deployment, service):
        kubernetes_validate.validate(item, "1.31", strict=True)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == DIGEST
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert made.startswith("# Written by")
    assert container["lifecycle"]["preStop"]["exec"]["command"][:2] == ["python", "-c"]


def test_the_validator_refuses_what_is_wrong(made):
    deployment = next(yaml.safe_load_all(made))
    deployment["spec"]["replicaz"] = 2
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, "1.31", strict=True)
