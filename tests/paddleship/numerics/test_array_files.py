"""A damaged array file is reported without numpy's advice to unpickle it."""

import json

import numpy as np
import pytest

from paddleship.errors import DataError
from paddleship.proof.cases import regression_cases


def _garbage(path):
    path.write_bytes(b"no array at all")


def _objects(path):
    with path.open("wb") as file:
        np.savez(file, **{"0/x": np.array([{"an": "object"}], dtype=object)})


@pytest.mark.parametrize("damage", [_garbage, _objects])
def test_nobody_is_advised_to_unpickle_a_damaged_file(tmp_path, damage):
    (tmp_path / "cases.json").write_text(json.dumps(["one"]))
    damage(tmp_path / "cases.npz")
    with pytest.raises(DataError, match="holds no plain arrays") as caught:
        regression_cases.read(tmp_path, [])
    assert "pickle" not in str(caught.value)
