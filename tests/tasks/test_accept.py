"""accept against real containers: a good image passes, each kind of bad one is refused, and nothing is left behind."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from paddleship.acceptance.transports import server_at
from paddleship.containers import image, image_test
from paddleship.containers.sandbox import in_sandbox
from paddleship.errors import BadInput
from paddleship.lineage import receipts
from paddleship.proof.cases.inputs import Case
from paddleship.proof.evidence import Evidence
from paddleship.shipped.computing.candidate import Candidate
from paddleship.system import processes
from tests.tasks.conftest import edit_params

REPOSITORY = Path(__file__).parents[2]

pytestmark = pytest.mark.engine

OWNER = "io.paddleship.acceptance"


def _is_server(container):
    """Whether it runs the server, and is not the one that is asked for the Python of the base image."""
    return container.status == "running" and "--candidate" in " ".join(container.attrs["Config"]["Entrypoint"] or [])


def owned(engine, process):
    """Names of containers and networks that the acceptance of a process made."""
    return [thing.name for thing in _made(engine, OWNER) if f"/{process}/" in _labels(thing)[OWNER]]


def left_behind(engine):
    """Names of containers and networks whose acceptance has ended; others may go on beside this test."""
    return [thing.name for thing in _made(engine, OWNER) if processes.is_alive(_labels(thing)[OWNER]) is False]


def _made(engine, label):
    containers = engine.containers.list(all=True, filters={"label": label}, ignore_removed=True)
    return [*containers, *engine.networks.list(filters={"label": label})]


def _labels(thing):
    return thing.attrs.get("Labels") or thing.labels


def report(checkout):
    return json.loads((checkout / "reports/accept.json").read_text())


def failed_checks(checkout):
    return {check["name"] for check in report(checkout)["verdict"]["checks"] if not check["passed"]}


def put(path, content):
    """Lines of a Dockerfile that write a file, always with the same layer, and its compiled module, which an image uses."""
    script = f"""
import base64, compileall, os, pathlib, py_compile, zlib
path = pathlib.Path({path!r})
path.write_bytes(zlib.decompress(base64.b64decode({base64.b64encode(zlib.compress(content)).decode()!r})))
if path.suffix == ".py":
    compileall.compile_file(path, force=True, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
for one in (path, *path.parent.glob("__pycache__/*"), *path.parent.glob("__pycache__"), path.parent):
    os.utime(one, (0, 0))
"""
    return "USER 0", f"RUN {json.dumps(['python', '-c', script])}", "USER 10001:10001"


@pytest.fixture
def derive(packaged, copy_of, engine, tmp_path):
    """A checkout whose image.json describes an image with further lines of its Dockerfile, as if `package` had made it.

    If `declared`, the lines are in the checkout's Dockerfile too, so that `package` would build the same image.
    """
    made = []

    def build(*lines, declared=True, **sections):
        checkout = copy_of(packaged[0], **sections)
        context = tmp_path / "context"
        context.mkdir()
        (context / "Dockerfile").write_text("\n".join([f"FROM {packaged[1]['image_id']}", *lines]) + "\n")
        if declared:
            with (checkout / "docker/serve.Dockerfile").open("a") as dockerfile:
                dockerfile.write("\n".join(lines) + "\n")
        built, _ = engine.images.build(path=str(context), rm=True)
        made.append(built.id)
        receipt = packaged[1] | {
            "image_id": built.id,
            "layers": built.attrs["RootFS"]["Layers"],
            "size_bytes": built.attrs["Size"],
            "unaccepted": f"{packaged[1]['unaccepted']}-{len(made)}-{os.getpid()}",
        }
        built.tag(receipt["unaccepted"])
        receipts.write(checkout / "image.json", receipt)
        return checkout

    yield build
    for identity in made:
        if image.exists(engine, identity):  # accept removes what it refuses
            engine.images.remove(identity, force=True)


def test_a_good_image_is_accepted_and_named_and_the_release_names_all_it_came_from(derive, packaged, stage, engine):
    checkout = derive(*put("/opt/paddleship/note", b"another image with the same configuration"), accept={"load_requests": 140})
    loosened = "verify.samples 32 (default 256)"
    receipt = json.loads((checkout / "image.json").read_text())
    assert not image.exists(engine, receipt["image"]) or image.find(engine, receipt["image"]).id != receipt["image_id"]
    done = stage(checkout, "accept")
    assert done.returncode == 0, done.stderr
    release, metrics = json.loads((checkout / "release.json").read_text()), report(checkout)["metrics"]
    assert release["accepted"] is True
    assert release["loosened"] == receipt["labels"]["io.paddleship.loosened"] == loosened
    assert report(checkout)["headline"].endswith(f" requests/s. Loosened: {loosened}")
    assert release["image_id"] == receipt["image_id"]
    assert release.items() >= packaged[1]["lineage"].items()
    (sent,) = release["example"]["request"]["inputs"]
    (output,) = release["example"]["answer"]["outputs"]
    assert (sent["name"], sent["shape"], output["shape"]) == ("x", [1, 2], [1, 1])
    assert metrics["http_noise_ratio"] <= 8
    assert metrics["accepted_answers_to_many_callers"] >= metrics["accepted_batches"]
    assert metrics["cold_start_ms"] > 0
    assert metrics["container_peak_memory_bytes"] > 1e7
    assert {"http_p50_ms", "http_p90_ms", "http_p95_ms"} <= metrics.keys()
    assert "http_p99_ms" not in metrics, "140 samples are too few for a p99"
    assert not left_behind(engine)

    assert image.find(engine, receipt["image"]).id == receipt["image_id"]
    assert not image.exists(engine, f"{receipt['image'].partition(':')[0]}:latest"), "a tag that moves names what is not promoted"
    assert not image.exists(engine, receipt["unaccepted"])

    edit_params(checkout, accept={"max_cold_start_ms": 1})
    assert stage(checkout, "accept").returncode == 3
    assert failed_checks(checkout) == {"cold_start_ms"}
    assert not image.exists(engine, receipt["image"]), "a refused image keeps no name"


@pytest.mark.long
def test_an_image_with_grpc_is_accepted_over_both_transports(packaged, copy_of, stage, engine):
    checkout = copy_of(packaged[0], package={"transports": ["http", "grpc"]}, accept={"load_requests": 140})
    for name in ("package", "accept"):
        done = stage(checkout, name)
        assert done.returncode == 0, done.stderr
    receipt = json.loads((checkout / "image.json").read_text())
    assert " over HTTP and gRPC as eager" in report(checkout)["headline"]
    assert {"http_p50_ms", "grpc_p50_ms", "grpc_throughput_per_s"} <= report(checkout)["metrics"].keys()
    assert any(check["name"] == "other_transports" for check in report(checkout)["verdict"]["checks"])
    assert receipt["layers"] != packaged[1]["layers"]
    image.untag(engine, receipt["image_id"], receipt["image"])


def test_the_container_runs_behind_bars(packaged, engine):
    with in_sandbox(engine, packaged[1]["image_id"], memory_bytes=300_000_000) as sandbox:
        host = sandbox.container.attrs["HostConfig"]
        assert host["ReadonlyRootfs"] is True
        assert host["CapDrop"] == ["ALL"]
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert host["Memory"] == 300_000_000
        assert host["PidsLimit"] == 256
        probe = "import os, socket; print(os.getuid()); socket.create_connection(('1.1.1.1', 53), 2)"
        code, output = sandbox.container.exec_run(["python", "-c", probe])
        assert output.startswith(b"10001")
        assert code == 1, "the container reached out"
        code, output = sandbox.container.exec_run(["python", "-c", "open('/opt/paddleship/here', 'w')"])
        assert code == 1
        assert b"Read-only file system" in output
    assert not left_behind(engine)


def test_an_image_that_answers_otherwise_than_eager_is_refused(derive, packaged, stage, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for path in (packaged[0] / "models/candidates/onnxruntime").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    model = onnx.load(folder / "model.onnx")
    for weight in (attribute.t for node in model.graph.node if node.op_type == "Constant" for attribute in node.attribute):
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.0001)))
    onnx.save(model, folder / "model.onnx")
    original = Candidate.load(packaged[0] / "models/candidates/onnxruntime")
    assert original.save(folder).files != original.files, "nothing was changed"
    checkout = derive(*(line for path in folder.iterdir() for line in put(f"/opt/paddleship/model/{path.name}", path.read_bytes())))
    done = stage(checkout, "accept")
    assert done.returncode == 3, done.stderr
    assert {"noise_ratio", "candidate_digest"} <= failed_checks(checkout)
    (finding,) = (item for item in report(checkout)["findings"] if "one caller" in item["message"])
    assert (finding["kind"], finding["severity"]) == ("served-differently", "error")
    assert "expected " in finding["message"]
    assert "the candidate was proven on this batch" in finding["message"]
    assert json.loads((checkout / "release.json").read_text())["accepted"] is False


@pytest.mark.long  # paddleship/acceptance/test_observing asks such a server
def test_an_image_that_answers_otherwise_under_load_is_refused(derive, stage):
    whole = (REPOSITORY / "paddleship/shipped/computing/runtimes/onnx_runtime.py").read_text()
    place = "named_outputs(self._candidate, self._session.run"
    assert place in whole
    drifting = whole.replace(f"return {place}", f"self.asked = getattr(self, 'asked', 0) + 1\n        answer = {place}")
    drifting = drifting.replace(
        "inputs)\n", "inputs)\n        return {name: array + (60 < self.asked < 160) for name, array in answer.items()}\n"
    )
    target = "/opt/paddleship/app/paddleship/shipped/computing/runtimes/onnx_runtime.py"
    checkout = derive(*put(target, drifting.encode()), accept={"load_requests": 140})
    done = stage(checkout, "accept")
    assert done.returncode == 3, done.stderr
    assert "concurrent_noise_ratio" in failed_checks(checkout)
    assert "noise_ratio" not in failed_checks(checkout), "one caller got the right answers"


def server(text):
    """Lines of a Dockerfile that put another program in the place of the server."""
    return put("/opt/paddleship/app/paddleship/shipped/serving/__main__.py", text.encode())


def test_a_container_that_ends_is_told_with_its_last_words_and_its_image_gets_no_name(derive, stage, engine):
    checkout = derive(*server("raise SystemExit('no such model')"))
    receipt = json.loads((checkout / "image.json").read_text())
    done = stage(checkout, "accept")
    assert done.returncode == 3, done.stderr
    assert "the container exited with code 1: no such model" in done.stderr
    assert not left_behind(engine)
    assert not image.exists(engine, receipt["unaccepted"])
    assert not image.exists(engine, receipt["image_id"])
    assert json.loads((checkout / "release.json").read_text())["accepted"] is False


def test_a_container_that_never_gets_ready_is_given_up(derive, stage, engine):
    checkout = derive(*server("import time; time.sleep(60)"), accept={"ready_timeout_s": 1})
    done = stage(checkout, "accept")
    assert done.returncode == 3, done.stderr
    assert "was not ready within accept.ready_timeout_s" in done.stderr
    assert not left_behind(engine)


def test_an_image_that_is_gone_is_told_with_what_to_do(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    receipts.write(checkout / "image.json", packaged[1] | {"image_id": "sha256:" + "0" * 64})
    done = stage(checkout, "accept")
    assert done.returncode == 2
    assert "build it again with `paddleship run --again package`" in done.stderr


def test_an_image_of_another_candidate_is_told_with_what_to_do(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    lineage = packaged[1]["lineage"] | {"candidate_digest": "0" * 64}
    receipts.write(checkout / "image.json", packaged[1] | {"lineage": lineage})
    done = stage(checkout, "accept")
    assert done.returncode == 2
    assert "the receipt of package has the candidate_digest '0000" in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("USER 0", "has the configuration User '0', but package would build '10001:10001'"),
        ("ENV PYTHONPATH=/tmp", "has the configuration Env "),
        ("ENV EXTRA=1", "has the configuration Env "),
        ('ENTRYPOINT ["python"]', "has the configuration Entrypoint ['python'], but package would build "),
        ('CMD ["--help"]', "has the configuration Cmd ['--help'], but package would build None"),
        ("LABEL approved=yes", "has the configuration Labels "),
        ("HEALTHCHECK NONE", "has the configuration Healthcheck "),
        ("WORKDIR /", "has the configuration WorkingDir '/', but package would build '/tmp'"),
        ("EXPOSE 22", "has the configuration ExposedPorts "),
        ("VOLUME /data", "has the configuration Volumes "),
        ("STOPSIGNAL SIGKILL", "has the configuration StopSignal 'SIGKILL'"),
    ],
)
def test_an_image_with_another_configuration_than_its_dockerfile_gives_is_refused(derive, packaged, engine, line, words):
    """The comparison alone; that `accept` makes it, with the image that it builds, is the next test."""
    receipt = json.loads((derive(line, declared=False) / "image.json").read_text())
    base, expected = (engine.images.get(packaged[1][key]) for key in ("base_image_id", "image_id"))
    with pytest.raises(BadInput) as refused:
        image.require_built(engine, receipt, base=base, expected=expected)
    assert words in str(refused.value)


def test_an_image_that_runs_as_root_is_refused_and_gets_no_name(derive, stage, engine):
    checkout = derive("USER 0", declared=False)
    receipt = json.loads((checkout / "image.json").read_text())
    done = stage(checkout, "accept")
    assert done.returncode == 2, done.stderr
    assert "has the configuration User '0', but package would build '10001:10001'" in done.stderr
    assert not image.exists(engine, receipt["image"]) or image.find(engine, receipt["image"]).id != receipt["image_id"]


@pytest.mark.spawned
def test_a_package_of_the_user_called_docker_does_not_hide_the_client_of_the_engine(derive, stage, engine, tmp_path):
    (tmp_path / "theirs/docker").mkdir(parents=True)
    (tmp_path / "theirs/docker/__init__.py").write_text("raise RuntimeError('this is no client of an engine')\n")
    checkout = derive("ENV NOTE=another", code={"root": str(tmp_path / "theirs")})
    for name in ("accept", "package"):
        done = stage(checkout, name)
        assert done.returncode == 0, done.stderr
    engine.images.remove(json.loads((checkout / "image.json").read_text())["image_id"], force=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda receipt: receipt["lineage"].update(noise_ratio=0.01), "has the noise_ratio 0.01, but the stages' outs give "),
        (lambda receipt: receipt["lineage"].update(server_sha256="0" * 64), "has the server_sha256 '0000"),
        (lambda receipt: receipt["lineage"].pop("server_sha256"), "has the server_sha256 None"),
        (lambda receipt: receipt["lineage"].update(speedup=99.0), "has the speedup 99.0, but the stages' outs give "),
        (lambda receipt: receipt["lineage"].update(git_commit="0" * 40), "has the label io.paddleship.git-commit="),
        (lambda receipt: receipt["labels"].update(approved="yes"), "has the label approved='yes', but its lineage gives None"),
        (lambda receipt: receipt.update(image="another:name"), "has the image 'another:name', but params and outs give "),
        (lambda receipt: receipt.update(base_image="another:base"), "has the base_image 'another:base', but params and outs give "),
        (lambda receipt: receipt["params"].update({"package.max_image_bytes": 1}), "has package.max_image_bytes 1, but it is "),
        (lambda receipt: receipt["inputs"].update(verify="0" * 64), "the image was not built from the present result of verify: build"),
    ],
)
def test_a_receipt_that_was_edited_and_sealed_again_is_refused(packaged, copy_of, stage, change, words):
    checkout = copy_of(packaged[0])
    receipt = json.loads((checkout / "image.json").read_text())
    change(receipt)
    receipts.write(checkout / "image.json", receipt)
    done = stage(checkout, "accept")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr


def test_a_receipt_that_was_edited_is_refused(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    (checkout / "image.json").write_text(json.dumps(packaged[1] | {"base_image": "another:base"}))
    assert "'image.json' was edited" in stage(checkout, "accept").stderr


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["LABEL org.opencontainers.image.created=yesterday"], "has the configuration Labels "),
        (put("/opt/paddleship/note", b""), "has the recorded layers "),
        (put("/opt/paddleship/site/sitecustomize.py", b"EVIL = True"), "has the recorded layers "),
    ],
)
def test_an_image_that_package_would_not_build_is_refused_although_the_receipt_describes_it(derive, stage, lines, words):
    done = stage(derive(*lines, declared=False), "accept")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "build it again with `paddleship run --again package`" in done.stderr


def test_a_base_image_that_was_replaced_since_is_named(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    receipts.write(checkout / "image.json", packaged[1] | {"base_image_id": "sha256:" + "0" * 64})
    done = stage(checkout, "accept")
    assert done.returncode == 2
    assert "was replaced since the image was built on it" in done.stderr


def test_without_a_receipt_the_stage_that_makes_it_is_named(packaged, copy_of, stage):
    checkout = copy_of(packaged[0])
    (checkout / "image.json").unlink()
    done = stage(checkout, "accept")
    assert done.returncode == 2
    assert "'image.json' cannot be read (No such file or directory): run `paddleship run --again package`" in done.stderr


@pytest.fixture
def long_acceptance(packaged, copy_of, engine):
    """An acceptance that is in its load when the test begins, and would take minutes."""
    checkout = copy_of(packaged[0], accept={"load_requests": 1_000_000, "load_seconds": 600})
    process = subprocess.Popen(
        [sys.executable, "-m", "tasks.accept"], cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)}, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300
    label = {"label": f"{OWNER}={processes.identity(process.pid)}"}
    while not any(_is_server(container) for container in engine.containers.list(filters=label)):
        assert process.poll() is None
        assert time.monotonic() < deadline
    yield process
    process.terminate()
    process.wait(timeout=300)


def test_a_container_that_is_killed_for_its_memory_is_told_with_its_limit(packaged, engine):
    with in_sandbox(engine, packaged[1]["image_id"], memory_bytes=12_000_000) as sandbox:
        server = server_at(sandbox.host, sandbox.port, model="linear", timeout_s=5)
        with pytest.raises(image_test.NotReadyError, match=r"needed more memory than its limit of 12,0.* bytes, and was killed") as ended:
            image_test.wait_until_ready(server, sandbox, deadline=time.perf_counter() + 300)
        assert ended.value.advice.startswith("raise accept.memory_bytes, or lower verify.max_batch")


def test_the_server_of_a_sandbox_gets_its_options(packaged, engine):
    options = ["--max-batch", "3"]
    with in_sandbox(engine, packaged[1]["image_id"], memory_bytes=300_000_000, options=options) as sandbox:
        server = server_at(sandbox.host, sandbox.port, model="linear", timeout_s=30)
        image_test.wait_until_ready(server, sandbox, deadline=time.perf_counter() + 300)
        with closing(server.connect()) as client:
            assert client.metadata()["parameters"]["max_batch"] == 3


@pytest.mark.parametrize(
    ("largest", "tried", "advice"),
    [
        (6, [16, 8, 4], "set verify.max_batch: 4, with which the container stayed within its limit, or raise accept.memory_bytes"),
        (3, [16, 8, 4, 2, 1], "set verify.max_batch: 1, with which the container stayed within its limit, or raise accept.memory_bytes"),
        (0, [16, 8, 4, 2, 1], "raise accept.memory_bytes, or ship a smaller model: requests of one row need too much too"),
        (None, [16], "raise accept.memory_bytes, or lower verify.max_batch, which is the largest batch that the server takes"),
    ],
)
def test_a_batch_that_fits_into_the_memory_is_looked_for_and_named(largest, tried, advice):
    cases = [Case(f"batch of {size}", "rows", {"x": np.zeros((size, 2))}, tuple(range(size))) for size in (1, 5, 32)]
    answers, asked = [{"y": case.inputs["x"]} for case in cases], []

    def observed(evidence, *, max_batch):
        asked.append(max_batch)
        assert all(len(case.raw) <= max_batch for case in evidence.cases)
        if largest is None or max_batch > largest:
            raise image_test.NotReadyError("it ended", of_memory=largest is not None)
        return image_test.ContainerFacts(0.0, None, 0, 0.0, 0, replaced=int(max_batch == 2))  # one of several processes was killed

    assert image_test._advice_on_memory(observed, Evidence(tuple(cases), answers, answers, "", {})) == advice
    assert asked == tried


def test_sigterm_leaves_nothing_behind(long_acceptance, engine):
    long_acceptance.send_signal(signal.SIGTERM)
    assert long_acceptance.wait(timeout=300) == 143
    assert not owned(engine, long_acceptance.pid)


def test_the_next_acceptance_removes_what_a_killed_one_left_and_leaves_a_living_one_alone(long_acceptance, packaged, engine):
    with in_sandbox(engine, packaged[1]["image_id"], memory_bytes=300_000_000):
        assert len(owned(engine, long_acceptance.pid)) == 2
    long_acceptance.kill()
    long_acceptance.wait()
    assert len(owned(engine, long_acceptance.pid)) == 2
    with in_sandbox(engine, packaged[1]["image_id"], memory_bytes=300_000_000):
        assert not owned(engine, long_acceptance.pid)


@pytest.mark.long  # paddleship/acceptance/test_observing asks such a server
def test_an_image_whose_server_answers_a_bad_request_with_500_is_refused(derive, stage):
    statuses = "paddleship/shipped/serving/transports/http/statuses.py"
    whole = (REPOSITORY / statuses).read_text()
    assert "Kind.BAD_REQUEST: HTTPStatus.BAD_REQUEST" in whole
    wrong = whole.replace("Kind.BAD_REQUEST: HTTPStatus.BAD_REQUEST", "Kind.BAD_REQUEST: HTTPStatus.INTERNAL_SERVER_ERROR")
    checkout = derive(*put(f"/opt/paddleship/app/{statuses}", wrong.encode()))
    done = stage(checkout, "accept")
    assert done.returncode == 3, done.stderr
    assert failed_checks(checkout) == {"hostile_requests"}
    assert "one row more than the largest batch: 500" in done.stderr
