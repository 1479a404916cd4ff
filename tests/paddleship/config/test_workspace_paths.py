import pytest

from paddleship.config import workspace_paths
from paddleship.config.sections.paths import Paths
from paddleship.errors import ParamsError

TARGET = {"kind": "docker", "name": "reviews"}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").touch()
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "inner").mkdir()
    (root / "alias").symlink_to("inner")
    return root


def overlay(key, value):
    """`data.raw` as nested sections; what has to be there with it is there."""
    section, *rest = key.split(".")
    values = {"data": {"fetch": {}}, "promote": {"target": dict(TARGET)} if key.startswith("promote.target") else {}}
    place = values.setdefault(section, {})
    for name in rest[:-1]:
        place = place.setdefault(name, {})
    place[rest[-1]] = value
    return values


WRITTEN = [*(f"paths.{name}" for name in Paths.model_fields), "promote.target.manifest", "data.fetch.rows"]
READ = ["data.raw", "code.root", "code.watch", "promote.ledger", "drift.sample", "graph_modes.torch_site"]


@pytest.mark.parametrize("key", WRITTEN)
@pytest.mark.parametrize("value", ["/tmp/x", "../x", "a/../../x", "link/x", "link", "."])  # noqa: S108 nothing is written there
def test_what_a_run_writes_or_starts_stays_in_the_workspace(root, reviews_params, key, value):
    with pytest.raises(ParamsError, match=rf"^{key} is '{value}', which is not below the workspace"):
        workspace_paths.require_inside(reviews_params(overlay(key, value)), root)


@pytest.mark.parametrize("key", READ)
@pytest.mark.parametrize("value", ["../x", "link/x", "link"])
def test_what_is_read_from_outside_is_named_by_its_absolute_path(root, reviews_params, key, value):
    with pytest.raises(ParamsError, match=rf"^{key} is '{value}', which leads out of the workspace .*: give its absolute path"):
        workspace_paths.require_inside(reviews_params(overlay(key, value)), root)
    workspace_paths.require_inside(reviews_params(overlay(key, str(root.parent / "elsewhere"))), root)


@pytest.mark.parametrize("key", [*WRITTEN, *READ])
def test_paths_in_the_workspace_pass_also_over_links_in_it(root, reviews_params, key):
    for value in ("new/folder/file.json", "inner", "alias/x", "two..dots", "with space" if "fetch" not in key else "x"):
        workspace_paths.require_inside(reviews_params(overlay(key, value)), root)


def test_the_link_of_a_single_file_into_the_cache_of_dvc_passes(root, reviews_params):
    (root / "image.json").symlink_to(root.parent / "elsewhere/file")
    workspace_paths.require_inside(reviews_params(), root)


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"fetch": {"x": "get.py; rm -r x"}}, "data.fetch.x"),
        ({"fetch": {"x": "get.py"}, "raw": "data/$(id)"}, "data.raw"),
    ],
)
def test_what_is_part_of_a_command_is_one_word_of_it(root, reviews_params, data, key):
    with pytest.raises(ParamsError, match=rf"^{key} is .*, which is part of a command"):
        workspace_paths.require_inside(reviews_params({"data": data}), root)


def test_data_that_a_run_fetches_is_written_so_it_stays_in_the_workspace(root, reviews_params):
    with pytest.raises(ParamsError, match=r"^data.raw is '/rows', which is not below the workspace"):
        workspace_paths.require_inside(reviews_params({"data": {"fetch": {"x": "get.py"}, "raw": "/rows"}}), root)
