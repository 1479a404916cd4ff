"""The layers of a runtime, laid out from real packages: which libraries they have."""

from dataclasses import replace

import pytest

from paddleship.errors import CandidateError
from paddleship.image.runtime_layers import RuntimeLayers
from paddleship.shipped.computing.runtimes.registration import Kind, Registration
from tests import plugins

RUNTIME = Registration(
    name="plugged",
    load=lambda *_: None,
    candidates={"plugged": Kind()},
    source="onnx",
    requirements=("plugins==1.0",),
    optional_libraries=plugins.PATTERNS,
)
FIRST = frozenset(["plugins/cu13/lib/libfirst.so.1"])


@pytest.fixture(autouse=True)
def _wheel(tmp_path, monkeypatch):
    monkeypatch.setenv("UV_FIND_LINKS", str(plugins.wheel(tmp_path / "wheels")))


def test_libraries_lose_what_no_loader_maps_except_those_that_must_not_be_modified(tmp_path):
    sizes = []
    for unmodified in ((), ("plugins/**",)):
        RuntimeLayers(replace(RUNTIME, unmodified=unmodified), (), None).lay_out(tmp_path / str(len(sizes)))
        sizes.append((tmp_path / f"{len(sizes)}/site/opt/paddleship/site" / next(iter(FIRST))).stat().st_size)
    assert sizes[0] < sizes[1] == plugins.LIBRARY.stat().st_size


def libraries(context, loaded):
    RuntimeLayers(RUNTIME, (), loaded).lay_out(context)
    site = context / "site/opt/paddleship/site"
    return {path.relative_to(site).as_posix() for path in site.glob("plugins/**/*.so*")}


def test_all_libraries_stay_unless_those_that_a_candidate_loads_are_known(tmp_path):
    assert libraries(tmp_path / "all", None) == set(plugins.FILES)
    assert libraries(tmp_path / "some", FIRST) == FIRST


def test_a_library_that_verify_had_loaded_and_the_packages_of_the_image_have_not_is_refused(tmp_path):
    words = r"verify had loaded plugins/cu12/lib/libfirst\.so\.1, which the packages of the image have not"
    with pytest.raises(CandidateError, match=words):
        libraries(tmp_path / "context", frozenset(["plugins/cu12/lib/libfirst.so.1"]))


def test_layers_with_other_libraries_are_other_layers():
    keys = {RuntimeLayers(RUNTIME, (), loaded).key("sha256:0") for loaded in (None, FIRST, frozenset(plugins.FILES))}
    assert len(keys) == 3
