"""The name of an accepted image, which anybody can give to another image."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

import docker
from paddleship.containers import image

NAME, ACCEPTED, ALTERED = "paddleship/sms:12ab", "sha256:" + "a" * 64, "sha256:" + "b" * 64


class Engine:
    """The images of an engine, by name and id."""

    def __init__(self, **_):
        self.ids = {ACCEPTED: ACCEPTED, ALTERED: ALTERED}
        self.images = SimpleNamespace(get=self.get)

    def get(self, name):
        if name not in self.ids:
            raise docker.errors.ImageNotFound(name)
        identity = self.ids[name]
        return SimpleNamespace(id=identity, tag=lambda given: self.ids.update({given: identity}))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (ACCEPTED, None),
        (ALTERED, f"{NAME} named another image, {ALTERED[:19]}: it names the accepted image {ACCEPTED[:19]} again"),
        (None, f"{NAME} named no image: it names the accepted image {ACCEPTED[:19]} again"),
    ],
)
def test_the_name_goes_back_to_the_accepted_image(named, said, monkeypatch, tmp_path):
    client, receipt = Engine(), tmp_path / "image.json"
    if named:
        client.ids[NAME] = named
    receipt.write_text(json.dumps({"image": NAME, "image_id": ACCEPTED}))
    monkeypatch.setattr(image, "engine", lambda: nullcontext(client))
    assert image.restore_name(receipt) == said
    assert client.ids[NAME] == ACCEPTED


def test_an_engine_without_the_accepted_image_keeps_its_names(monkeypatch, tmp_path):
    client, receipt = Engine(), tmp_path / "image.json"
    client.ids = {ALTERED: ALTERED, NAME: ALTERED}
    monkeypatch.setattr(image, "engine", lambda: nullcontext(client))
    assert image.restore_name(receipt) is None, "there is no receipt"
    receipt.write_text(json.dumps({"image": NAME, "image_id": ACCEPTED}))
    assert image.restore_name(receipt) is None
    assert client.ids[NAME] == ALTERED
