"""The short form of `make parity-bench`: every fault is caught, and no honest export is refused."""

import json

import pytest

from benchmarks.faults import __main__ as bench
from benchmarks.faults import ends
from benchmarks.faults.faults import FAULTS, _keep_bits
from paddleship.custody.sources import LIBRARY


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
def test_every_fault_is_caught_and_nothing_honest_is_refused(engine, warm_commands, monkeypatch, capsys):
    monkeypatch.setenv("SHORT", "1")
    with pytest.raises(SystemExit) as end:
        bench.main()
    said = capsys.readouterr().out
    figures = json.loads(said.strip().splitlines()[-1])
    assert end.value.code == 0, said
    assert figures["caught_share"] == 1
    assert figures["false_alarms"] == 0
    assert figures["faulty_exports"] > 60
    assert figures["smallest_fault_ratio"] < 4
    assert figures["allclose_caught_share"] < 1
    assert (figures["end_faults_caught_share"], figures["end_false_alarms"]) == (1, 0)


def test_every_fault_in_the_library_finds_what_it_changes():
    changes = [(path, change) for fault in ends.FAULTS for path, change in fault.files if path.startswith(ends.APP)]
    assert len(changes) > 3
    for path, change in changes:
        text = (LIBRARY / path.removeprefix(f"{ends.APP}/")).read_text(encoding="utf-8")
        assert change(text) != text


def test_there_are_twenty_kinds_of_fault_at_least_for_six_models():
    assert len({fault.name for fault in FAULTS}) >= 20
    assert len({model for fault in FAULTS for model in fault.models}) >= 6


def test_the_short_form_puts_each_kind_of_fault_into_one_model_that_it_fits():
    elsewhere = bench._elsewhere(bench._SHORT)
    for fault in (fault for fault in FAULTS if set(fault.models) & set(bench._SHORT)):
        (model,) = [name for name in bench._SHORT if fault.name not in elsewhere[name]]
        assert model in fault.models


def test_weights_keep_the_bits_they_are_given():
    import numpy as np

    values = np.float32([1.0, 1 + 2**-11, 3.14159, -0.1, 0])
    assert np.array_equal(_keep_bits(values, 10), values.astype(np.float16).astype(np.float32))
