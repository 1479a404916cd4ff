"""What a container uses."""

from types import SimpleNamespace

import pytest

from paddleship.containers.image import Sandbox


@pytest.mark.parametrize("own", ["total_rss", "anon"], ids=["cgroup v1", "cgroup v2"])
def test_files_are_no_memory_of_a_container(own):
    stats = {"memory_stats": {"usage": 100, "max_usage": 150, "stats": {own: 30, "inactive_file": 20}}}
    used = Sandbox(SimpleNamespace(stats=lambda **_: stats), "127.0.0.1", {})
    assert used.memory_bytes() == 30
    assert used.peak_memory_bytes() == 150
