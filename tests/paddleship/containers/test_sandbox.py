"""What a container uses."""

from types import SimpleNamespace

import pytest

from paddleship.containers import image_test
from paddleship.containers.sandbox import Sandbox, in_sandbox, with_gpus
from paddleship.shipped.computing.candidate import Candidate


@pytest.mark.parametrize("own", ["total_rss", "anon"], ids=["cgroup v1", "cgroup v2"])
def test_files_are_no_memory_of_a_container(own):
    stats = {"memory_stats": {"usage": 100, "max_usage": 150, "stats": {own: 30, "inactive_file": 20}}}
    used = Sandbox(SimpleNamespace(stats=lambda **_: stats), "127.0.0.1", {})
    assert used.memory_bytes() == 30
    assert used.peak_memory_bytes() == 150


class Engine:
    """An engine that creates a container, and an interrupt that comes before its answer is read."""

    api = SimpleNamespace(base_url="http+docker://localhost")

    def __init__(self):
        self.containers, self.networks, self.made = self, SimpleNamespace(create=self.network, list=lambda **_: []), []

        self.images = SimpleNamespace(get=lambda _: SimpleNamespace(labels={}))

    def info(self):
        return {}

    def network(self, name, **_):
        self.made.append(name)
        return SimpleNamespace(name=name, remove=lambda: self.made.remove(name))

    def create(self, _image, *, name, **_):
        self.made.append(f"container {name}")
        raise KeyboardInterrupt

    def list(self, *, filters, **_):
        named = [one for one in self.made if one == f"container {filters.get('name')}"]
        return [SimpleNamespace(remove=lambda one=one, **_: self.made.remove(one)) for one in named]


@pytest.mark.parametrize(("candidate", "count"), [("onnxruntime-cuda", -1), ("onnxruntime", None), (None, None), ("unknown", None)])
def test_an_image_whose_candidate_computes_on_a_gpu_gets_the_gpus_and_no_other_one_does(candidate, count):
    labels = {} if candidate is None else {"io.paddleship.candidate": candidate}
    client = SimpleNamespace(images=SimpleNamespace(get=lambda _: SimpleNamespace(labels=labels)))
    requests = with_gpus(client, "sha256:1").get("device_requests", [])
    assert [(request.count, request.capabilities) for request in requests] == ([(count, [["gpu"]])] if count else [])


def test_an_image_for_a_gpu_is_refused_before_it_starts_where_there_is_none(monkeypatch):
    candidate = Candidate("onnxruntime-cuda", "m", "onnxruntime-cuda", "float32", 1, (), (), {"kind": "tensors"}, "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    report, example = image_test.attempt(None, {}, candidate, None)
    assert (report.headline, bool(report.verdict), example) == ("not accepted on a GPU", False, {})
    assert "CUDA_VISIBLE_DEVICES hides every GPU" in str(report.verdict.failures[0])


def test_a_container_is_removed_if_an_interrupt_comes_before_the_engine_has_answered():
    engine = Engine()
    with pytest.raises(KeyboardInterrupt), in_sandbox(engine, "sha256:1", memory_bytes=1):
        pass
    assert engine.made == []
