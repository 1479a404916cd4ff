"""`promote`, `rollback` and `trace` with a name server of their own, and the network of this machine, whose containers they use."""

import json
import sys

import pytest

from tests.e2e.test_lookups import NOT_OURS, opened

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def network(tmp_path):
    with opened(tmp_path / "network", isolated=False) as made:
        yield made


@pytest.mark.timeout(1500)
def test_no_promotion_rollback_or_trace_looks_up_a_name(network, versions, tmp_path):
    team = versions.copy(tmp_path / "state")
    team.settings()
    image = json.loads((team.checkouts["2"] / "release.json").read_text())["image"]
    for number, words in (("1", "promote 1"), ("2", "promote 2"), ("1", "rollback"), ("1", f"trace {image}")):
        ours = {name: value for name, value in team.env(number).items() if name not in (*NOT_OURS, "HOME", "TMPDIR")}
        done = network.run(sys.executable, "-m", "paddleship.cli.main", *words.split(), cwd=team.checkouts[number], **ours)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        assert network.looked_up() == [], words
    assert network.device_ids() == []
