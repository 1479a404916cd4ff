"""package against a real engine: what is in the image, what it says of itself, and how it fails."""

import json
import os
import platform
import re
import shutil
from pathlib import Path

import pytest

from paddleship.cli import image_lineage
from paddleship.config import loading
from paddleship.containers import building, image
from paddleship.image import python_version, requirements, sbom
from paddleship.image.runtime_layers import RuntimeLayers
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import registry
from tests import canaries
from tests.tasks.sealing import measured_again, sealed_again

pytestmark = pytest.mark.engine


def failure(done, code):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("error: ")
    return line


def test_the_image_holds_only_what_the_server_needs(packaged, engine):
    _, receipt = packaged
    assert receipt["lineage"]["runtime"] == "onnxruntime"
    listing = engine.containers.run(
        receipt["image_id"], ["-c", "import pkgutil, paddleship; print(sorted(module.name for module in pkgutil.iter_modules()))"],
        entrypoint="python", remove=True, network_disabled=True, read_only=True,
    ).decode()  # fmt: skip
    assert "'onnxruntime'" in listing
    for foreign in ("paddle", "pydantic", "tasks", "flows", "mlflow"):
        assert f"'{foreign}'" not in listing


def test_a_start_of_the_image_compiles_no_python(packaged, engine):
    ask = """
import os, sys
import onnxruntime
from paddleship.shipped.serving import health, service
from paddleship.shipped.serving.transports.http import server
files = [module.__cached__ for module in sys.modules.values() if getattr(module, "__cached__", None)]
print(len(files), [file for file in files if not os.path.exists(file)])
"""
    arguments = {"entrypoint": "python", "remove": True, "network_disabled": True, "read_only": True}
    said = engine.containers.run(packaged[1]["image_id"], ["-c", ask], **arguments).decode()
    modules, missing = said.split(maxsplit=1)
    assert int(modules) > 200
    assert missing.strip() == "[]"


def test_the_image_runs_as_nobody_and_watches_its_health(packaged, engine):
    config = engine.images.get(packaged[1]["image_id"]).attrs["Config"]
    assert config["User"] == "10001:10001"
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert config["Entrypoint"][:3] == ["python", "-m", "paddleship.shipped.serving"]


def test_the_size_that_the_choice_was_made_by_is_that_of_the_image(packaged):
    checkout, receipt = packaged
    report = json.loads((checkout / "reports/benchmark.json").read_text())
    base = json.loads((checkout / "reports/package.json").read_text())["metrics"]["base_image_bytes"]
    expected = report["candidates"][receipt["lineage"]["candidate"]]["image_bytes"]
    assert expected == pytest.approx(receipt["size_bytes"] - base, rel=0.15)


def test_builds_of_one_date_in_two_checkouts_give_one_image_without_the_name_of_the_model(packaged, copy_of, stage, engine, tmp_path):
    checkouts = [copy_of(packaged[0]), tmp_path / "elsewhere/of-another-length"]
    shutil.copytree(checkouts[0], checkouts[1], symlinks=True)
    receipts = []
    for checkout in checkouts:
        done = stage(checkout, "package", SOURCE_DATE_EPOCH="1700000000")
        assert done.returncode == 0, done.stderr
        receipts.append(json.loads((checkout / "image.json").read_text()))
    first, second = receipts
    assert second["layers"] == first["layers"] == packaged[1]["layers"]
    assert second["image_id"] == first["image_id"] != packaged[1]["image_id"]
    found = engine.images.get(second["image_id"])
    assert found.attrs["Created"] == "2023-11-14T22:13:20Z"
    assert second["unaccepted"] in found.tags
    assert second["image"] not in found.tags


def test_a_date_that_is_none_is_refused(packaged, copy_of, stage):
    line = failure(stage(copy_of(packaged[0]), "package", SOURCE_DATE_EPOCH="yesterday"), 2)
    assert "SOURCE_DATE_EPOCH must be whole seconds since 1970 (got 'yesterday')" in line


def test_what_models_with_one_runtime_share_is_built_once(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    offline = {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(checkout / "empty")}
    done = stage(checkout, "package", **offline)
    assert done.returncode == 0, done.stderr
    assert "installing" not in done.stdout


def test_the_labels_lead_back_to_everything_the_image_was_made_of(packaged, engine):
    _, receipt = packaged
    what, lineage = image_lineage.trace(receipt["image_id"])
    assert what.startswith("image ")
    assert lineage.model_dump() == receipt["lineage"]
    assert lineage.mlflow_run_id == "mlflow-1"
    assert lineage.mlflow_tracking_uri == "http://127.0.0.1:1", "without user and password"
    assert lineage.prefect_flow_run_id == "flow-1"
    labels = engine.images.get(receipt["image_id"]).labels
    assert labels["org.opencontainers.image.revision"] == lineage.git_commit
    assert "MIT" in labels["org.opencontainers.image.licenses"]
    assert labels["org.opencontainers.image.base.name"] == python_version.base_image(platform.python_version())
    text = image_lineage.describe(what, lineage, contents=image_lineage.contents(receipt["image_id"]))
    assert lineage.data_sha256 in text
    assert re.search(r"contents      \d+ packages of Python, \d+ of Debian \(/opt/paddleship/model/sbom.cdx.json", text)
    assert "noise ratio" in text


def test_the_bill_of_materials_is_in_the_image_and_in_the_report(packaged):
    checkout, receipt = packaged
    bill = image_lineage.bill(receipt["image_id"])
    assert bill == (checkout / "reports/package/sbom.cdx.json").read_text()
    parts = {part["name"]: part for part in json.loads(bill)["components"]}
    pins = requirements.of(registry.of("onnxruntime"))
    assert {pin.partition("==")[0] for pin in pins} <= {part.get("name") for part in parts.values()}
    assert parts["linear/onnxruntime"]["hashes"][0]["content"] == receipt["lineage"]["candidate_digest"]
    assert json.loads((checkout / "reports/package.json").read_text())["facts"]["page"] == "package/sbom.cdx.json", "so MLflow gets it"


def test_neither_the_image_nor_a_receipt_holds_the_password_of_the_tracking_server(packaged, engine):
    checkout, receipt = packaged
    found = engine.images.get(receipt["image_id"])
    assert canaries.in_bytes(json.dumps([found.attrs, found.history()]).encode()) == []
    assert canaries.in_folder(checkout / "reports") == canaries.in_bytes((checkout / "image.json").read_bytes()) == []


def test_no_path_of_the_machine_that_built_it_is_in_the_image(packaged, copy_of, stage, engine):
    checkout = copy_of(packaged[0])
    assert stage(checkout, "package", MLFLOW_TRACKING_URI=f"sqlite:///{checkout}/.paddleship/mlflow.db").returncode == 0
    receipt = json.loads((checkout / "image.json").read_text())
    found = engine.images.get(receipt["image_id"])
    assert str(checkout) not in json.dumps([found.attrs, found.history()])
    assert receipt["lineage"]["mlflow_tracking_uri"] is None


@pytest.mark.long  # the gate is in tests/test_gates.py
def test_an_image_that_is_too_large_misses_the_gate_and_leaves_its_evidence(packaged, copy_of, stage):
    checkout = copy_of(packaged[0], package={"max_image_bytes": 1000})
    assert "raise package.max_image_bytes" in failure(stage(checkout, "package"), 3)
    assert json.loads((checkout / "reports/package.json").read_text())["verdict"]["checks"][0]["passed"] is False


def test_no_engine_is_told_with_what_to_do(benchmarked, stage):
    line = failure(stage(benchmarked, "package", DOCKER_HOST="unix:///nowhere.sock"), 4)
    assert "'unix:///nowhere.sock'" in line
    assert "make engine" in line
    assert "UNTIL=benchmark" in line


def test_a_base_image_that_cannot_be_had_is_told_with_what_to_do(packaged, copy_of, stage):
    checkout = copy_of(packaged[0], package={"base_image": "127.0.0.1:1/nothing:here"})
    assert "infra/base_image.sh 127.0.0.1:1/nothing:here" in failure(stage(checkout, "package"), 4)


def test_a_base_image_with_another_python_than_was_proven_is_refused(packaged, copy_of, stage, engine, tmp_path):
    (tmp_path / "build").mkdir()
    (tmp_path / "build/python").write_text("#!/bin/sh\necho 3.9.1\n")
    (tmp_path / "build/python").chmod(0o755)
    (tmp_path / "build/Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nCOPY python /usr/local/bin/python\n")
    base = json.loads((packaged[0] / "image.json").read_text())["base_image"]
    image.build(engine, tmp_path / "build", base_image=base, labels={}).tag("paddleship-test/other-python")
    checkout = copy_of(packaged[0], package={"base_image": "paddleship-test/other-python"})
    line = failure(stage(checkout, "package"), 2)
    engine.images.remove("paddleship-test/other-python", noprune=True)
    assert f"'paddleship-test/other-python' has Python 3.9.1, but verify ran with {platform.python_version()}" in line
    assert "set package.base_image" in line


def test_a_base_image_without_python_is_refused(packaged, copy_of, stage, engine, tmp_path):
    (tmp_path / "build").mkdir()
    base = json.loads((packaged[0] / "image.json").read_text())["base_image"]
    (tmp_path / "build/Dockerfile").write_text("ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nENV PATH=/nowhere\n")
    image.build(engine, tmp_path / "build", base_image=base, labels={}).tag("paddleship-test/no-python")
    checkout = copy_of(packaged[0], package={"base_image": "paddleship-test/no-python"})
    line = failure(stage(checkout, "package"), 2)
    engine.images.remove("paddleship-test/no-python", noprune=True)
    assert "set package.base_image to an image with Python" in line


def test_packages_that_cannot_be_installed_are_told(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    with (checkout / "docker/runtime.Dockerfile").open("a") as dockerfile:
        dockerfile.write("# other layers than those that the engine has\n")
    offline = {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(checkout / "empty")}
    assert "docker/requirements/onnxruntime.txt cannot be installed" in failure(stage(checkout, "package", **offline), 4)


def test_an_image_with_another_version_of_a_library_than_was_proven_is_refused(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    pins = checkout / "docker/requirements/onnxruntime.txt"
    pins.write_text(
        pins.read_text().replace("flatbuffers==", "protobuf==6.33.0\nflatbuffers==").replace("onnxruntime==1.31.1", "onnxruntime==1.30.0")
    )
    line = failure(stage(checkout, "package"), 2)
    assert "the image would have onnxruntime 1.30.0, but verify ran with 1.31.1" in line


@pytest.mark.long  # accept lays out all layers again; what the engine's cache adds to that is its own affair
def test_a_build_without_the_cache_of_the_engine_gives_the_same_layers(packaged, engine, monkeypatch, tmp_path):
    checkout, receipt = packaged
    monkeypatch.chdir(checkout)
    folder = Path("models/candidates") / receipt["lineage"]["candidate"]
    candidate, name = Candidate.load(folder), f"paddleship-test/runtime:{os.getpid()}"
    debian, bill = (image.read_file(engine, receipt["image_id"], path) for path in ("/var/lib/dpkg/status", sbom.RUNTIME_IN_IMAGE))
    RuntimeLayers.of(candidate).lay_out(tmp_path / "runtime", debian=debian)
    building.lay_out(tmp_path / "model", loading.load(Path("params.yaml")), candidate, bill=bill)
    below, _ = engine.images.build(
        path=str(tmp_path / "runtime"), rm=True, nocache=True, buildargs={"BASE_IMAGE": receipt["base_image"]}, tag=name
    )
    again, _ = engine.images.build(path=str(tmp_path / "model"), rm=True, nocache=True, buildargs={"BASE_IMAGE": name})
    layers = again.attrs["RootFS"]["Layers"]
    engine.images.remove(again.id)
    engine.images.remove(below.id, force=True)
    assert layers == receipt["layers"]


@pytest.mark.slow
@pytest.mark.long  # that an image with another layer is refused is in test_accept
def test_a_replaced_image_of_the_runtime_is_found_by_accept_and_replaced(packaged, copy_of, stage, engine, tmp_path):
    base, context = f"paddleship-test/base:{os.getpid()}", tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM {packaged[1]['base_image']}\nLABEL test={os.getpid()}\n")
    engine.images.build(path=str(context), tag=base)
    checkout = copy_of(packaged[0], package={"base_image": base})
    assert stage(checkout, "package").returncode == 0
    folder = checkout / "models/candidates" / packaged[1]["lineage"]["candidate"]
    runtime = f"paddleship/runtime:{RuntimeLayers.of(Candidate.load(folder)).key(engine.images.get(base).id)[:12]}"
    good = engine.images.get(runtime)
    (context / "Dockerfile").write_text(f'FROM {runtime}\nUSER 0\nRUN ["python", "-c", "open(\'/opt/paddleship/site/x.py\', \'w\')"]\n')
    engine.images.build(path=str(context), tag=runtime)
    assert stage(checkout, "package").returncode == 0
    line = failure(stage(checkout, "accept"), 2)
    assert "but package would build" in line
    assert engine.images.get(runtime).attrs["RootFS"] == good.attrs["RootFS"]
    for tag in (runtime, base):
        engine.images.remove(tag, force=True)


@pytest.mark.parametrize(
    ("pin", "words"),
    [
        ("flatbuffers==25.9.23", "the image would have flatbuffers 25.9.23, but this environment has "),
        ("typeguard==4.4.4", "the image would have typeguard 4.4.4, which is not installed here"),
    ],
)
def test_a_library_that_no_stage_ran_with_is_refused_whether_verify_records_it_or_not(packaged, copy_of, stage, pin, words):
    checkout = copy_of(packaged[0])
    pins = checkout / "docker/requirements/onnxruntime.txt"
    kept = [line for line in pins.read_text().splitlines() if not line.startswith(pin.partition("==")[0])]
    pins.write_text("\n".join([*kept, pin]) + "\n")
    assert words in failure(stage(checkout, "package"), 2)


def test_a_speedup_that_its_samples_do_not_give_is_refused(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    choice = checkout / "models/benchmark/choice.json"
    choice.write_text(json.dumps(json.loads(choice.read_text()) | {"speedup": 99.0}))
    assert "choice.json changed since benchmark wrote this folder" in failure(stage(checkout, "package"), 2)
    sealed_again(choice.parent)
    assert "choice.json has the speedup 99.0, but its samples give" in failure(stage(checkout, "package"), 2)


def test_a_noise_ratio_that_was_edited_in_the_proof_is_refused(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    passed = checkout / "models/parity/passed.json"
    proven = json.loads(passed.read_text())
    proven["onnxruntime"]["noise_ratio"] = 0.01
    passed.write_text(json.dumps(proven))
    assert "passed.json changed since verify wrote this folder" in failure(stage(checkout, "package"), 2)
    sealed_again(passed.parent)
    assert "'models/benchmark' was made from another 'models/parity'" in failure(stage(checkout, "package"), 2)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("models/benchmark/choice.json", "run `paddleship run --again benchmark`"),
        ("models/parity/passed.json", "run `paddleship run --again verify`"),
    ],
)
def test_a_missing_input_names_the_stage_that_makes_it(packaged, copy_of, stage, path, words):
    checkout = copy_of(packaged[0])
    (checkout / path).unlink()
    assert words in failure(stage(checkout, "package"), 2)


def test_a_candidate_that_verify_refused_is_not_packaged(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    (checkout / "models/parity/passed.json").write_text("{}")
    measured_again(checkout)
    assert "has not passed verify" in failure(stage(checkout, "package"), 2)


def test_an_image_is_called_as_it_was_asked_for(packaged, engine):
    found = engine.images.get(packaged[1]["image_id"])
    names = [f"paddleship/named-{os.getpid()}:{tag}" for tag in ("a", "b")]
    try:
        for name in names:
            found.tag(name)
        assert [image_lineage.trace(name)[0] for name in names] == [f"image {name}" for name in names]
        assert image_lineage.trace(found.id)[0].removeprefix("image ") in {*found.tags, *names}
    finally:
        for name in names:
            engine.images.remove(name)


def test_what_is_not_in_the_engine_or_not_ours_cannot_be_traced(engine):
    from paddleship.errors import BadInput

    with pytest.raises(BadInput, match="neither a container nor an image"):
        image_lineage.trace("paddleship/nothing:here")
    with pytest.raises(BadInput, match="carries no lineage"):
        image_lineage.trace("python:3.11-slim")


def test_the_address_for_people_is_one_that_docker_takes(engine, monkeypatch):
    assert image.host_of(engine).startswith(("unix://", "tcp://", "ssh://"))
    monkeypatch.setenv("DOCKER_HOST", "tcp://example:2375")
    assert image.host_of(engine) == "tcp://example:2375"


@pytest.mark.slow
@pytest.mark.long  # that runtime is asked in paddleship/shipped/computing/runtimes, the image of another one in test_accept
def test_an_image_with_paddle_in_it_serves_too(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    choice = checkout / "models/benchmark/choice.json"
    proven = json.loads((checkout / "models/parity/passed.json").read_text())
    measured = json.loads((checkout / "reports/benchmark.json").read_text())["candidates"]["paddle"]
    other = {"candidate": "paddle", "digest": proven["paddle"]["digest"]}
    other |= {key: measured[key] for key in ("speedup", "speedup_low", "speedup_high")}
    choice.write_text(json.dumps(json.loads(choice.read_text()) | other))
    sealed_again(choice.parent)
    for name in ("package", "accept"):
        done = stage(checkout, name)
        assert done.returncode == 0, done.stderr
    assert json.loads((checkout / "release.json").read_text())["runtime"] == "paddle"
