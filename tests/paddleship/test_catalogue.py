from typing import get_args

import pytest

from paddleship import catalogue, params
from paddleship.errors import ParamsError


@pytest.fixture
def only_base(monkeypatch):
    """As if the extras were not installed."""
    monkeypatch.setattr(catalogue, "installed", lambda package: package not in ("openvino", "nncf"))


def test_params_and_the_catalogue_know_the_same_names():
    assert set(get_args(catalogue.Name)) == set(catalogue.KINDS)


def test_by_default_every_installed_candidate_takes_part_and_those_of_a_gpu_only_with_its_build():
    assert catalogue.chosen(None) == [name for name, kind in catalogue.KINDS.items() if not kind.gpu]


def test_without_an_extra_its_candidates_stay_away_by_default(only_base):
    assert not [name for name in catalogue.chosen(None) if name.startswith("openvino")]
    assert "onnxruntime-int8" in catalogue.chosen(None)


@pytest.mark.parametrize("name", ["openvino", "openvino-int8"])
def test_a_candidate_that_is_named_and_not_installed_names_the_extra(only_base, name):
    with pytest.raises(ParamsError, match=rf"names '{name}' and openvino is not installed: install the extra 'openvino'") as caught:
        catalogue.chosen(["paddle", name])
    assert caught.value.exit_code == 2


def test_half_an_extra_is_named_by_the_package_that_lacks(monkeypatch):
    monkeypatch.setattr(catalogue, "installed", lambda package: package != "nncf")
    with pytest.raises(ParamsError, match="nncf is not installed"):
        catalogue.chosen(["openvino-int8"])
    assert catalogue.chosen(["openvino"]) == ["openvino"]


def test_a_name_twice_is_one_candidate():
    assert catalogue.chosen(["paddle", "onnxruntime", "paddle"]) == ["paddle", "onnxruntime"]


def test_an_unknown_candidate_is_told_the_known_ones(base_params):
    with pytest.raises(ParamsError, match=r"optimize\.candidates\.0.*'openvino-int8'.*got 'tensorrt'"):
        params.parse(params.merge(base_params, {"optimize": {"candidates": ["tensorrt"]}}))
