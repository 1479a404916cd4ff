"""What a drift check is given: a sample and a candidate that exist."""

import pytest

from paddleship.errors import BadInput
from paddleship.orchestration import drift_check


@pytest.mark.parametrize(
    ("sample", "candidate", "words"),
    [
        ("nowhere", None, r"the request sample 'nowhere' does not exist: name the folder that a server with --sample writes to"),
        ("here", None, r"there is no request sample in .*here'"),
        ("here", "nowhere", r"'nowhere' is no candidate: name the folder with the candidate.json of the candidate that serves"),
        (None, None, r"there is no request sample: give --sample FOLDER"),
    ],
)
def test_a_sample_or_candidate_that_is_not_there_is_named(reviews_params, tmp_path, sample, candidate, words):
    (tmp_path / "here").mkdir()
    with pytest.raises(BadInput, match=words):
        drift_check.check(tmp_path, reviews_params(), sample=sample, candidate=candidate, hours=None)
