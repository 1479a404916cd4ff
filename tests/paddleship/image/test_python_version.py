import pytest

from paddleship.errors import CandidateError
from paddleship.image import python_version


def test_the_base_image_is_the_official_one_of_the_minor_version():
    assert python_version.base_image("3.13.5") == "python:3.13-slim"


def test_another_patch_version_is_accepted():
    python_version.require_proven("the base image 'a:b'", "3.12.9", "3.12.1")


def test_another_minor_version_is_refused_with_what_to_do():
    words = r"^the base image 'a:b' has Python 3\.11\.2, but verify ran with 3\.13\.0.* package.base_image"
    with pytest.raises(CandidateError, match=words) as caught:
        python_version.require_proven("the base image 'a:b'", "3.11.2", "3.13.0")
    assert caught.value.exit_code == 2
