import json
from dataclasses import replace
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from paddleship.image import sbom
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import sha256
from paddleship.shipped.computing.spec import TensorSpec

STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9
Description: GNU C Library
 more text: of several lines

Package: gone
Status: deinstall ok not-installed
Architecture: amd64
Version: 1

Package: base-files
Status: install ok installed
Architecture: amd64
Version: 12.4
"""
METADATA = {
    "one": "License-Expression: MIT OR Apache-2.0\n",
    "two": "License: BSD-3-Clause\n",
    "three": f"License: {'a long text ' * 20}\nClassifier: License :: OSI Approved :: MIT License\nClassifier: Topic :: Utilities\n",
    "four": "",
}


@pytest.fixture
def site(tmp_path):
    for name, license_of in METADATA.items():
        folder = tmp_path / "site" / f"{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{license_of}")
        (folder / "RECORD").write_text(f"{name}.py,,\n{name}_removed.py,,\n")
        (tmp_path / "site" / f"{name}.py").write_text("pass\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libgomp.so.1").write_bytes(b"library")
    return tmp_path / "site"


def of_runtime(site, debian=STATUS):
    return sbom.of_runtime(site, sbom.installed_files(site), site.parent / "lib", debian)


def of_image(site, **facts):
    numbers = (TensorSpec("x", (None, 2), "float32"),)
    candidate = Candidate(
        name="onnxruntime", model="linear", runtime="onnxruntime", precision="float32", threads=1, inputs=numbers, outputs=numbers,
        preprocess={}, weights_sha256="a" * 64, files={"model.onnx": "b" * 64},
    )  # fmt: skip
    return sbom.of_image(of_runtime(site), replace(candidate, **facts), shipped={"paddleship serving": "c" * 64})


def components(bill):
    return {one["name"]: one for one in json.loads(bill)["components"]}


def test_a_bill_follows_the_schema_of_cyclonedx(site):
    for bill in (of_runtime(site), of_image(site), of_runtime(site, debian="")):
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None


def test_it_names_packages_of_python_and_of_the_base_image_and_the_model(site):
    listed = components(of_image(site))
    assert {"one", "two", "libc6", "base-files", "libgomp.so.1", "linear", "linear/onnxruntime", "paddleship serving"} <= listed.keys()
    assert "gone" not in listed
    assert listed["libc6"]["purl"] == "pkg:deb/debian/libc6@2.36-9?arch=amd64"
    assert listed["one"]["purl"] == "pkg:pypi/one@1.0"
    assert listed["linear"]["hashes"] == [{"alg": "SHA-256", "content": "a" * 64}]
    assert listed["libgomp.so.1"]["hashes"][0]["content"] == sha256(site.parent / "lib/libgomp.so.1")


def test_a_licence_is_the_expression_or_the_short_name_or_the_classifier_that_a_package_declares(site):
    listed = components(of_runtime(site))
    assert listed["one"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert listed["two"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    assert listed["three"]["licenses"] == [{"license": {"name": "MIT License"}}]
    assert "licenses" not in listed["four"]
    assert sbom.licenses(of_runtime(site)) == "BSD-3-Clause AND (MIT OR Apache-2.0)"


def test_a_changed_file_of_a_package_changes_its_hash(site):
    (before,) = components(of_runtime(site))["one"]["properties"]
    (site / "one.py").write_text("pass  # changed\n")
    (after,) = components(of_runtime(site))["one"]["properties"]
    assert before["name"] == after["name"] == sbom.FILES_SHA256
    assert before["value"] != after["value"]


def test_equal_content_gives_an_equal_bill_without_a_date_or_a_path(site):
    assert of_image(site) == of_image(site)
    assert str(Path(site).parent) not in of_image(site)
    assert of_image(site) != of_image(site, files={"model.onnx": "d" * 64})
