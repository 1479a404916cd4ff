import json

import numpy
import paddle
import pytest

from paddleship.shipped.computing import references
from paddleship.shipped.computing.references import is_users


@pytest.mark.parametrize(
    ("file", "alone", "with_libraries"),
    [
        (json.__file__, False, False),
        (paddle.__file__, False, False),
        (references.__file__, False, False),
        (numpy.__file__, False, True),
        (pytest.__file__, False, True),
        (__file__, True, True),
        ("<string>", False, False),
        ("/nowhere/model.py", False, False),
    ],
)
def test_whose_code_a_file_is(file, alone, with_libraries):
    assert is_users(file) == alone
    assert is_users(file, libraries=True) == with_libraries


def test_a_project_whose_name_begins_like_ours_or_like_pythons_folder_is_the_users(tmp_path, monkeypatch):
    monkeypatch.setattr(references, "_HERE", f"{tmp_path / 'paddleship'}/")
    monkeypatch.setattr(references, "_SITES", (f"{tmp_path / 'site'}/",))
    for name in ("paddleship_models", "site_models"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.py").touch()
        assert is_users(str(tmp_path / name / "model.py"))


def test_of_an_error_of_paddles_conversion_the_error_itself_is_told_and_not_the_advice_below_it():
    said = """In transformed code:

    File "/nowhere/model.py", line 10, in forward
        return y / max(s, 1.0)

    TypeError: bool(Tensor) is not supported in static graph mode.
If you haven't call bool(Tensor) explicitly, consider:
    >>>     raise ValueError("x should be positive")
    For more info, please refer to somewhere
"""
    assert references.explain(TypeError(said)) == "TypeError: bool(Tensor) is not supported in static graph mode."
    assert references.explain(ValueError("one\ntwo")) == "ValueError: two"


def test_an_error_of_paddle_keeps_the_sentence_before_its_hint():
    hint = "[Hint: Expected capacity == in_size, but received capacity:25 != in_size:12.] (at /paddle/unary.cc:2536)"
    said = f"(InvalidArgument) The 'shape' in ReshapeOp is invalid.\n  {hint}\n  [operator < reshape > error]"
    assert references.explain(ValueError(said)) == f"ValueError: (InvalidArgument) The 'shape' in ReshapeOp is invalid. {hint}"
