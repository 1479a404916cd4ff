"""The libraries of an image are those of the proof: by verify's record, otherwise by what is installed here."""

from importlib.metadata import version

import pytest

from paddleship.errors import CandidateError
from paddleship.image import distributions

NUMPY, CLICK = version("numpy"), version("click")


def test_the_versions_that_are_proven_or_installed_are_taken():
    distributions.require_proven({"numpy": NUMPY, "click": CLICK, "paddlepaddle-gpu": "3.3.1"}, {"numpy": NUMPY, "paddlepaddle": "3.3.1"})


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ({"numpy": "1.0.0"}, "would have numpy 1.0.0, but verify ran with "),
        ({"click": "1.0.0"}, f"would have click 1.0.0, but this environment has {CLICK}"),
        ({"nobody-has-this": "1.0.0"}, "would have nobody-has-this 1.0.0, which is not installed here"),
    ],
)
def test_another_version_and_a_library_that_is_not_installed_are_refused(image, words):
    with pytest.raises(CandidateError, match=words):
        distributions.require_proven(image, {"numpy": NUMPY})


def test_a_library_of_the_server_that_is_not_installed_is_allowed_and_named(monkeypatch):
    monkeypatch.setattr(distributions.environment, "installed", lambda names: {name: "1" for name in names if "uvloop" not in name})
    distributions.require_proven({"uvloop": "0.23.0"}, {})
    assert distributions.unproven() == "uvloop"
