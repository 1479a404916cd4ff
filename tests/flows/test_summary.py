"""The end of a run: findings in the table, those that nobody has seen yet as lines, all of them for the artifact."""

import json
import shlex
from pathlib import Path

import pytest

from paddleship.orchestration import summary
from paddleship.orchestration.summary import Row
from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.system import host

WARNING = Finding("batch-dependent", "warning", "padding counts", "mask it", "model.py:3")
REPORT = Report(stage="verify", headline="1 of 1", verdict=Verdict(checks=[Check.at_most("x", 0, 1)]), findings=[WARNING])


def test_the_table_counts_the_warnings_of_a_stage():
    rows = [Row("verify", "ran", REPORT), Row("benchmark", "not run", None)]
    assert [row.verdict for row in rows] == ["passed, 1 warning", "–"]
    assert summary.markdown(rows) == "* **verify** (ran, 0.0 s): passed, 1 warning: 1 of 1\n* **benchmark** (not run)\n"


def test_the_artifact_lists_all_findings():
    assert summary.findings([Row("verify", "unchanged", REPORT), Row("accept", "failed", None)]) == f"* verify: {WARNING}"


def test_the_list_of_stages_does_not_repeat_the_error_of_the_first_screen():
    failed = Row("verify", "failed", REPORT, reason="verify: x is 3 (limit 1)")
    assert summary.markdown([failed]) == "* **verify** (failed, 0.0 s): passed, 1 warning: the error above\n"


def test_a_stage_that_ran_has_said_its_findings_and_one_that_did_not_run_says_them_at_the_end():
    assert summary.unseen([Row("verify", "ran", REPORT)]) == []
    assert summary.unseen([Row("verify", "failed", REPORT)]) == []
    for how in ("unchanged", "restored"):
        assert summary.unseen([Row("verify", how, REPORT)]) == [f"verify: {WARNING}"]


def release(folder, request, answer, **facts):
    path = folder / "release.json"
    example = {"request": request, "answer": answer}
    path.write_text(json.dumps({"image": "x:1", "image_id": "sha256:0", "params": {"name": "tiny"}, "example": example, **facts}))
    return summary.release_lines(path, engine=None, requests=folder / "requests")


def test_the_printed_curl_sends_the_example_and_shows_its_answer(tmp_path):
    request = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ['it\'s "好" $HOME']}]}
    answer = {"outputs": [{"name": "label", "datatype": "BYTES", "shape": [1], "data": ["好"]}]}
    lines = release(tmp_path, request, answer)
    place = next(index for index, line in enumerate(lines) if "curl" in line)
    words = shlex.split(lines[place])
    assert words[:3] == ["curl", "-s", "127.0.0.1:8000/v2/models/tiny/infer"]
    assert json.loads(words[words.index("-d") + 1]) == request
    assert json.loads(lines[place + 1]) == answer


@pytest.mark.parametrize(("candidate", "gpus"), [("onnxruntime-cuda", "--gpus all "), ("onnxruntime", ""), ("another", "")])
def test_the_printed_command_starts_an_image_for_a_gpu_with_the_gpus(tmp_path, candidate, gpus):
    lines = release(tmp_path, {"inputs": []}, {"outputs": []}, candidate=candidate)
    assert f"  docker run --rm {gpus}--read-only --tmpfs /tmp --cap-drop ALL -p 127.0.0.1:8000:8000 x:1" in lines


def test_a_large_request_is_kept_in_a_file_that_outlives_the_run_and_a_large_answer_is_shortened(tmp_path):
    request = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 5000], "data": [0.5] * 5000}]}
    answer = {"outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 5000], "data": [1.5] * 5000}]}
    lines = release(tmp_path, request, answer)
    place = next(index for index, line in enumerate(lines) if "curl" in line)
    (tmp_path / "release.json").unlink()  # as that of a run in a worktree, which is removed at its end
    *_, sent = shlex.split(lines[place])
    assert sent == f"@{tmp_path}/requests/tiny.json"
    assert json.loads(Path(sent.removeprefix("@")).read_text()) == request
    assert json.loads(lines[place + 1])["outputs"][0]["data"] == [1.5] * 8 + ["…"]


def test_a_measurement_of_another_machine_names_it_and_one_of_this_machine_does_not():
    mine = REPORT.model_copy(update={"stage": "benchmark", "host": host.fingerprint(), "facts": {"measured_on": host.describe()}})
    other = mine.model_copy(update={"facts": {"measured_on": "node7 (EPYC 9654, 96 cores)"}})
    changed = mine.model_copy(update={"host": mine.host | {"numpy": "0.1"}})
    assert Row("benchmark", "restored", mine).headline == "1 of 1"
    assert Row("benchmark", "restored", other).headline == "1 of 1 (measured on node7 (EPYC 9654, 96 cores), not here)"
    assert "(measured on node7 (EPYC 9654, 96 cores), not here)" in summary.markdown([Row("benchmark", "restored", other)])
    assert Row("benchmark", "restored", changed).headline == "1 of 1 (measured on this machine with another numpy)"
    assert Row("verify", "restored", REPORT).headline == "1 of 1"
