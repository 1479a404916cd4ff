"""The table and the picture of a sweep: the chosen variant first, failures with their reason, and what cannot be compared."""

from paddleship.config.sections.sweep import Sweep
from paddleship.sweep import choice, sweep_page
from tests.paddleship.sweep.helpers import done, failed


def paged(variants, folder, **settings):
    chosen = choice.choose({one.number: one.figures for one in variants if one.figures}, Sweep(**settings))
    return sweep_page.report("m-1", variants, chosen, folder), (folder / "sweep.md").read_text()


def test_the_chosen_variant_comes_first_and_a_failed_one_last_with_its_reason(tmp_path):
    report, text = paged([failed(1), done(2, p50=2.0), done(3), done(4, p50=3.0, size=50)], tmp_path)
    rows = [line.partition(" (epochs=")[0] for line in text.splitlines() if line.startswith("* ") and "epochs=" in line]
    assert rows == ["* ★ variant 3", "* · variant 4", "* variant 2", "* variant 1"]
    assert "GateFailed: accuracy is 0.5 (limit 0.8): train longer" in text
    assert report.headline.startswith(
        "variant 3 (epochs=3) is chosen, with validation accuracy 0.9000 (test 0.8800), 1.00\xa0ms for a request"
    )
    assert report.metrics["variants_done"] == 3
    assert report.metrics["best_variant"] == 3
    assert (tmp_path / report.pictures[0]).read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_compared_is_said(tmp_path):
    _, plain = paged([done(1), done(2)], tmp_path)
    assert "several machines" not in plain
    assert "not free" not in plain
    _, text = paged([done(1), done(2, measured_on="there", valid=False, data_sha256="e")], tmp_path)
    assert "Measured on several machines: here; there. Two p50 are compared only within one." in text
    assert "The machine was not free during the benchmark of 2" in text
    assert "do not have the same rows" in text


def test_a_p50_that_is_not_valid_has_its_doubt_beside_it_and_is_no_metric_of_the_sweep(tmp_path):
    report, _ = paged([done(1, score=0.95, valid=False), done(2)], tmp_path)
    assert "1.00\xa0ms for a request (the speed is not valid, the machine was not free), " in report.headline
    assert report.metrics["best_variant"] == 1
    assert not {"best_p50_ms", "best_speedup"} & report.metrics.keys()
    valid, _ = paged([done(1, score=0.95), done(2)], tmp_path)
    assert valid.metrics["best_p50_ms"] == 1.0


def test_a_sweep_in_which_nothing_may_be_chosen_says_why(tmp_path):
    report, text = paged([done(1), failed(2)], tmp_path, max_p50_ms=0.1)
    assert not report.verdict
    assert "p50 1 ms is above 0.1 ms" in text
    empty, _ = paged([failed(1)], tmp_path)
    assert not empty.pictures
