"""`make image-size`, with a candidate that runs on the CPU."""

import json

import pytest

from benchmarks.image import unproven


@pytest.mark.slow
@pytest.mark.engine
def test_the_image_of_a_runtime_is_built_shown_started_and_removed_without_a_proven_candidate(engine, monkeypatch, capsys):
    monkeypatch.setattr(unproven, "_ENDED_S", 5)
    before = {found.id for found in engine.images.list("paddleship/compared")}
    assert unproven.run("onnxruntime") == 0
    lines = capsys.readouterr().out.splitlines()
    figures = json.loads(lines[-1])
    assert (figures["server"], figures["goals_missed"]) == ("runs", [])
    assert 100 < figures["image_mb"] < 1000
    assert figures["packages"]["site/onnxruntime"] > 10_000_000
    assert any(line.startswith("image_bytes is ") for line in lines)
    assert {found.id for found in engine.images.list("paddleship/compared")} == before


def test_an_image_that_misses_its_goal_ends_with_3(monkeypatch, engine):
    monkeypatch.setattr(unproven, "_ENDED_S", 5)
    monkeypatch.setitem(unproven._GOALS_MB, "onnxruntime", 1)
    assert unproven.run("onnxruntime") == 3
