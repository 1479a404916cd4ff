"""The configuration of an image with labels and one date, so that equal layers, labels and dates give an equal image id.

A build by the engine records the times of its steps instead.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

OF_THE_BUILD = ("Hostname", "Domainname", "Image")  # the builder writes them, containers do not use them


def write(attrs: Mapping[str, Any], labels: Mapping[str, str], *, created: datetime) -> bytes:
    """The configuration of an image with the layers and settings of `attrs`, as JSON whose SHA-256 is the id of the image."""
    layers, at = attrs["RootFS"]["Layers"], created.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    settings = {key: value for key, value in attrs["Config"].items() if value and key not in OF_THE_BUILD}
    content = {
        "architecture": attrs["Architecture"],
        "os": attrs["Os"],
        "created": at,
        "config": {**settings, "Labels": {**settings.get("Labels", {}), **labels}},
        "rootfs": {"type": "layers", "diff_ids": layers},
        "history": [{"created": at, "created_by": "paddleship"}] * len(layers),
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def archive(content: bytes, layers: int) -> bytes:
    """What `docker load` reads: the configuration, and names of layers that are not read because the engine has them."""
    name = f"{digest(content)}.json"
    manifest = [{"Config": name, "RepoTags": None, "Layers": [f"{number}/layer.tar" for number in range(layers)]}]
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path, data in ((name, content), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()
