"""The software bill of materials of an image, in CycloneDX: packages of its runtime and of its base image, the model and its server.

It has no date and no number of its own, so that equal content gives an equal file. A licence is what a package declares of itself.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from paddleship import __version__
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import sha256, tree_sha256

if TYPE_CHECKING:
    from cyclonedx.model.component import Component

FILE = "sbom.cdx.json"
IN_IMAGE = f"/opt/paddleship/model/{FILE}"
RUNTIME_IN_IMAGE = f"/opt/paddleship/lib/{FILE}"  # without the model
FILES_SHA256 = "io.paddleship:files-sha256"  # of the names and hashes of a package's files in the image: a package has no single file there
_LONGEST_LICENSE = 60  # characters; a longer field holds the text of the licence
_CLASSIFIER = "License :: "


def of_runtime(site: Path, files: Mapping[str, Sequence[str]], libraries: Path, debian: str) -> str:
    """The bill of the layers that models with one runtime share, and of the base image, whose dpkg status is `debian`.

    `files` are those that each package was installed with, of which `site` may lack some.
    """
    packages = [_package(one, site, files) for one in distributions(path=[str(site)])]
    system = [_file(path.name, path) for path in sorted(libraries.iterdir())]
    return _text([*packages, *system, *debian_packages(debian)])


def installed_files(site: Path) -> dict[str, list[str]]:
    """The files of each package in a folder, from its record."""
    return {_name(one): sorted(str(file) for file in one.files or []) for one in distributions(path=[str(site)])}


def of_image(runtime: str, candidate: Candidate, *, shipped: Mapping[str, str]) -> str:
    """The bill of the runtime's layers with the model, its candidate, and the parts of this library, `shipped`, by the hash of each."""
    from cyclonedx.model.component import ComponentType

    ours = [_hashed(name, ComponentType.LIBRARY, __version__, digest, license="Apache-2.0") for name, digest in shipped.items()]
    model = _hashed(candidate.model, ComponentType.MACHINE_LEARNING_MODEL, candidate.digest[:12], candidate.weights_sha256)
    made = _hashed(f"{candidate.model}/{candidate.name}", ComponentType.DATA, candidate.digest[:12], candidate.digest)
    files = [_hashed(f"{candidate.model}/{candidate.name}/{name}", ComponentType.FILE, None, sha) for name, sha in candidate.files.items()]
    bill, added = json.loads(runtime), json.loads(_text([model, made, *files, *ours]))
    parts = sorted([*bill["components"], *added["components"]], key=lambda one: str(one["bom-ref"]))
    image = {"bom-ref": "image", "name": candidate.model, "type": "container", "version": candidate.digest[:12]}
    dependencies = [{"dependsOn": [part["bom-ref"] for part in parts], "ref": "image"}]
    return _dump({**bill, "components": parts, "metadata": {"component": image}, "dependencies": dependencies})


def licenses(bill: str) -> str:
    """The licences of the packages in a bill that are valid SPDX identifiers or expressions, as one expression."""
    names = {_spdx(one) for part in json.loads(bill)["components"] for one in part.get("licenses", [])} - {None}
    return " AND ".join(f"({name})" if " " in str(name) else str(name) for name in sorted(map(str, names)))


def debian_packages(status: str) -> list[Component]:
    """The packages in the status file of dpkg."""
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    entries: Iterable[Message] = (Parser().parsestr(entry) for entry in status.split("\n\n"))
    made = []
    for one in entries:
        if one["Package"] and "not-installed" not in one.get("Status", ""):
            url = PackageURL("deb", "debian", one["Package"], one["Version"], {"arch": one["Architecture"]})
            made.append(Component(name=one["Package"], version=one["Version"], type=ComponentType.LIBRARY, purl=url, bom_ref=str(url)))
    return made


def _name(one: Distribution) -> str:
    return canonicalize_name(one.metadata["Name"])


def _package(one: Distribution, site: Path, files: Mapping[str, Sequence[str]]) -> Component:
    from cyclonedx.factory.license import LicenseFactory
    from cyclonedx.model import Property
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    name = _name(one)
    url = PackageURL("pypi", None, name, one.version)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the factory moves within its library, and is the same in both versions
        declared = [LicenseFactory().make_from_string(text) for text in _licenses(one.metadata)]
    content = {file: sha256(site / file) for file in files[name] if (site / file).is_file()}
    of_files = Property(name=FILES_SHA256, value=tree_sha256(content))
    return Component(
        name=name, version=one.version, type=ComponentType.LIBRARY, purl=url, bom_ref=str(url), licenses=declared, properties=[of_files]
    )


def _licenses(metadata: Any) -> list[str]:
    """What the metadata of a package declare: an expression, else a short name, else classifiers."""
    if expression := metadata.get("License-Expression"):
        return [expression]
    if 0 < len(text := (metadata.get("License") or "").strip()) <= _LONGEST_LICENSE:
        return [text]
    classifiers = [one for one in metadata.get_all("Classifier", []) if one.startswith(_CLASSIFIER)]
    return sorted({one.rpartition(" :: ")[2] for one in classifiers})


def _file(name: str, path: Path) -> Component:
    from cyclonedx.model.component import ComponentType

    return _hashed(name, ComponentType.FILE, None, sha256(path))


def _hashed(name: str, kind: Any, version: str | None, digest: str, *, license: str | None = None) -> Component:
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component
    from cyclonedx.model.license import DisjunctiveLicense

    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest)]
    declared = [DisjunctiveLicense(id=license)] if license else []
    return Component(name=name, version=version, type=kind, hashes=hashes, licenses=declared, bom_ref=f"{kind.value}:{name}")


def _text(components: Iterable[Component]) -> str:
    from cyclonedx.model.bom import Bom
    from cyclonedx.output.json import JsonV1Dot6

    made = json.loads(JsonV1Dot6(Bom(components=components)).output_as_string())
    del made["serialNumber"], made["metadata"], made["dependencies"]
    return _dump(made)


def _dump(bill: Mapping[str, Any]) -> str:
    return json.dumps(bill, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _spdx(one: Mapping[str, Any]) -> str | None:
    expression: str | None = one.get("expression") or one.get("license", {}).get("id")
    return expression
