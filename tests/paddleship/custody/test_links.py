"""A seal binds no more than DVC does: a param that DVC does not know of a stage would refuse an out that DVC does not make again."""

from pathlib import Path

import pytest
import yaml

from paddleship.custody.links import LINKS

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def stages():
    return yaml.safe_load((REPOSITORY / "dvc.yaml").read_text(encoding="utf-8"))["stages"]


@pytest.mark.parametrize("name", [name for name, link in LINKS.items() if link.out])
def test_dvc_makes_an_out_again_for_each_param_that_its_seal_binds(stages, reviews_params, name):
    known = stages[name]["params"]
    for key in LINKS[name].values(reviews_params()):
        assert any(key == one or key.startswith(f"{one}.") for one in known), key


@pytest.mark.parametrize("name", list(LINKS))
def test_a_stage_depends_in_dvc_on_each_out_whose_seal_it_reads(stages, name):
    for before in LINKS[name].inputs:
        assert f"${{paths.{LINKS[before].out}}}" in stages[name]["deps"]


@pytest.mark.parametrize("name", [name for name, link in LINKS.items() if link.versions])
def test_dvc_makes_an_out_again_for_other_versions_where_its_seal_binds_them(stages, name):
    assert "${paths.environment}" in stages[name]["deps"]


@pytest.mark.parametrize("name", [name for name, link in LINKS.items() if link.out])
def test_the_gates_are_bound_and_a_time_limit_and_a_plot_are_not(reviews_params, name):
    bound = LINKS[name].values(reviews_params())
    assert "verify.fail_on" in bound
    assert not {"verify.layers", "verify.timeout_s", "optimize.timeout_s", "benchmark.timeout_s"} & bound.keys()


@pytest.mark.parametrize(
    ("name", "gate"),
    [
        ("prepare", "data.unusable_share"),
        ("train", "train.min_score"),
        ("verify", "train.min_score"),
        ("benchmark", "benchmark.slo_p99_ms"),
        ("package", "package.max_image_bytes"),
    ],
)
def test_a_gate_is_bound_to_the_out_that_it_judged(reviews_params, name, gate):
    assert gate in LINKS[name].values(reviews_params())
