"""What an image tells its server: batching only where the file beside the candidate says so."""

import pytest

from paddleship.errors import CandidateError
from paddleship.shipped.serving import settings
from paddleship.shipped.serving.settings import Settings


def test_settings_are_read_as_they_were_written_and_without_a_file_nothing_is_batched(tmp_path):
    assert settings.read(tmp_path) == Settings(batching=False)
    Settings(batching=True).write(tmp_path)
    assert settings.read(tmp_path) == Settings(batching=True)


def test_further_transports_are_named_with_their_ports_and_without_any_the_file_is_as_it_was_before_there_were_some(tmp_path):
    Settings(batching=True).write(tmp_path)
    assert (tmp_path / "serving.json").read_text() == '{"batching":true,"padding":false}'
    Settings(batching=True, also={"grpc": 8001}).write(tmp_path)
    assert settings.read(tmp_path) == Settings(batching=True, also={"grpc": 8001})


def test_processes_are_read_as_they_were_written_and_one_leaves_the_file_as_it_was_before_there_were_several(tmp_path):
    Settings(batching=True, processes=1).write(tmp_path)
    assert (tmp_path / "serving.json").read_text() == '{"batching":true,"padding":false}'
    Settings(processes=3).write(tmp_path)
    assert settings.read(tmp_path) == Settings(processes=3)


@pytest.mark.parametrize("text", ["{", '{"batches": true}', "[1]"])
def test_a_file_that_is_no_settings_is_one_line(tmp_path, text):
    (tmp_path / "serving.json").write_text(text)
    with pytest.raises(CandidateError, match=r"serving.json cannot be read .*: build the image again"):
        settings.read(tmp_path)


def test_settings_without_an_objective_are_written_as_they_were_before_there_was_one(tmp_path):
    Settings(batching=True).write(tmp_path)
    assert (tmp_path / "serving.json").read_bytes() == b'{"batching":true,"padding":false}'
    Settings(slo_p99_ms=50).write(tmp_path)
    assert settings.read(tmp_path) == Settings(slo_p99_ms=50)


def test_the_gpu_that_an_image_is_for_is_read_as_it_was_written_and_none_leaves_the_file_as_it_was(tmp_path):
    Settings(batching=True).write(tmp_path)
    assert "gpu" not in (tmp_path / "serving.json").read_text()
    Settings(gpu="NVIDIA H200").write(tmp_path)
    assert settings.read(tmp_path) == Settings(gpu="NVIDIA H200")
