"""Request samples of several servers, hours and candidates."""

import json
from datetime import UTC, datetime

import pytest

from paddleship.drift import samples
from paddleship.errors import BadInput

NOW = datetime(2026, 11, 23, 12, 30, tzinfo=UTC)
PROFILE = {"rows": 9, "left_out": [], "features": [{"name": "k", "low": 0, "high": 0, "cuts": [], "values": [0.0], "counts": [9, 0]}]}


def server(folder, name, hours, *, digest="a" * 64):
    counts = {hour: {"rows": sum(found), "counts": [found]} for hour, found in hours.items()}
    head = {"schema_version": 1, "model": "m", "candidate": "paddle", "candidate_digest": digest, "profile": PROFILE}
    (folder / f"{name}.requests.json").write_text(json.dumps({**head, "hours": counts}))


def test_the_last_hours_of_all_servers_of_a_candidate_are_added_up(tmp_path):
    server(tmp_path, "one", {"2026-11-23T12": [3, 1], "2026-11-23T11": [10, 0], "2026-11-22T01": [100, 100]})
    server(tmp_path, "two", {"2026-11-23T12": [5, 0]})
    server(tmp_path, "old", {"2026-11-20T12": [7, 7]}, digest="b" * 64)
    found = samples.read(tmp_path, hours=2, now=NOW)
    assert (found.rows, [list(counts) for counts in found.counts]) == (19, [[18, 1]])
    assert samples.read(tmp_path, hours=1, now=NOW).rows == 9
    assert samples.read(tmp_path, hours=168, digest="b" * 64, now=NOW).rows == 14
    assert samples.read(tmp_path / "two.requests.json", hours=1, now=NOW).rows == 5


def test_a_server_that_counted_nothing_yet_is_an_empty_sample(tmp_path):
    server(tmp_path, "new", {})
    found = samples.read(tmp_path, hours=24, now=NOW)
    assert (found.rows, list(found.counts[0])) == (0, [0, 0])


def test_a_folder_without_samples_says_how_to_get_some(tmp_path):
    with pytest.raises(BadInput, match="start the server with --sample"):
        samples.read(tmp_path, hours=1)


def test_another_candidate_is_refused_with_both_digests(tmp_path):
    server(tmp_path, "one", {})
    with pytest.raises(BadInput, match=r"no requests of the candidate cccccccccccc \(it has those of aaaaaaaaaaaa\)"):
        samples.read(tmp_path, hours=1, digest="c" * 64)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema_version": 9}, "schema version 9, this paddleship reads 1"),
        ({"hours": {"2026-11-23T12": {"rows": 1, "counts": [[1, 2, 3]]}}}, "its counts do not fit its profile"),
        ({"hours": 5}, "cannot be read as a request sample"),
        ({"profile": None}, "cannot be read as a request sample"),
    ],
)
def test_a_file_that_is_no_sample_is_named(tmp_path, changes, words):
    server(tmp_path, "one", {})
    path = tmp_path / "one.requests.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(BadInput, match=words):
        samples.read(tmp_path, hours=1)


def test_of_two_candidates_in_the_same_hour_the_one_with_more_requests_serves(tmp_path):
    server(tmp_path, "new", {"2026-11-23T12": [9000, 0]}, digest="a" * 64)
    server(tmp_path, "old", {"2026-11-23T12": [10, 0]}, digest="b" * 64)
    assert samples.read(tmp_path, hours=1, now=NOW).rows == 9000
