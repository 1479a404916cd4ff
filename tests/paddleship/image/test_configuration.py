import io
import json
import tarfile
from datetime import UTC, datetime

from paddleship.image import configuration

LAYERS = ["sha256:" + digit * 64 for digit in "12"]
DATE = datetime(2026, 1, 1, tzinfo=UTC)


def attrs(**differing):
    settings = {"Hostname": differing.pop("host", "a"), "Image": "sha256:0", "Env": ["A=b"], "Labels": {"base": "x"}, "OnBuild": None}
    return {"Architecture": "amd64", "Os": "linux", "Config": settings, "RootFS": {"Layers": LAYERS}, "Created": "now", **differing}


def test_the_time_and_the_container_of_a_build_do_not_matter():
    written = {configuration.write(attrs(host=host, Created=host), {}, created=DATE) for host in ("a", "b")}
    assert len(written) == 1


def test_labels_are_added_to_those_of_the_base():
    content = json.loads(configuration.write(attrs(), {"own": "y"}, created=DATE))
    assert content["config"] == {"Env": ["A=b"], "Labels": {"base": "x", "own": "y"}}
    assert content["created"] == "2026-01-01T00:00:00Z"
    assert content["rootfs"]["diff_ids"] == LAYERS
    assert len(content["history"]) == len(LAYERS)


def test_the_archive_holds_the_configuration_and_no_layer():
    with tarfile.open(fileobj=io.BytesIO(configuration.archive(b"{}", 2))) as archive:
        (manifest,) = json.load(archive.extractfile("manifest.json"))
        assert set(archive.getnames()) == {"manifest.json", manifest["Config"]}
    assert manifest["Config"] == f"{configuration.digest(b'{}')}.json"
    assert len(manifest["Layers"]) == 2
