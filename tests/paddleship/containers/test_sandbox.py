"""What a container uses."""

from types import SimpleNamespace

import pytest

from paddleship.containers import image
from paddleship.containers.image import Sandbox


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


def test_a_container_is_removed_if_an_interrupt_comes_before_the_engine_has_answered():
    engine = Engine()
    with pytest.raises(KeyboardInterrupt), image.sandbox(engine, "sha256:1", memory_bytes=1):
        pass
    assert engine.made == []
