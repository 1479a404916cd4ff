"""What a container uses."""

from types import SimpleNamespace

import pytest

from paddleship.containers.image import Sandbox


@pytest.mark.parametrize("files", ["total_inactive_file", "inactive_file"], ids=["cgroup v1", "cgroup v2"])
def test_files_that_the_kernel_may_drop_are_no_memory_of_a_container(files):
    stats = {"memory_stats": {"usage": 100, "max_usage": 150, "stats": {files: 30}}}
    used = Sandbox(SimpleNamespace(stats=lambda **_: stats), "127.0.0.1", {})
    assert used.memory_bytes() == 70
    assert used.peak_memory_bytes() == 150
