"""The dashboard and the alert rules ask for metrics that a server has, in the form that Prometheus and Grafana read."""

import json
import re
import shutil
import subprocess

import pytest
import yaml
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families

from tests.paddleship.shipped.serving.candidates import make_tensors
from tests.paddleship.shipped.serving.transports.http.test_serving import ready
from tests.stage_code import REPOSITORY

FOLDER = REPOSITORY / "infra/monitoring"
OF_PROMETHEUS = {"up"}  # it makes this one for each server
LABELS = re.compile(r"\{[^}]*\}|\b(?:by|on|group_left)\s*\([^)]*\)")
NAME = re.compile(r"\b(?:(?:paddleship|process)_\w+|up)\b")


@pytest.fixture(scope="module")
def exposed(tmp_path_factory):
    """The names of all samples of a server, and the names of their labels."""
    (text,) = (client.get("/metrics").text for client in ready(make_tensors(tmp_path_factory.mktemp("tensors"))))
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {sample.name: sample.labels.keys() for sample in samples} | {"paddleship_connections_refused_total": {"status"}}


def dashboard():
    return json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))


def rules():
    return [rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def expressions():
    return [rule["expr"] for rule in rules()] + [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_and_label_that_is_asked_for_is_one_of_the_server(exposed, expression):
    names = set(NAME.findall(LABELS.sub("", expression)))
    assert names
    assert names <= {*exposed, *OF_PROMETHEUS}
    known = {"instance", "job", "le", *(label for name in names & exposed.keys() for label in exposed[name])}
    asked = re.findall(r"(\w+)\s*=~?\"", expression)
    grouped = [label for group in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression) for label in group.split(",")]
    assert {label.strip() for label in (*asked, *grouped)} <= known


def test_the_dashboard_names_its_data_source_and_places_each_panel_once():
    board = dashboard()
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "instance"]
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {"${datasource}"}
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    cells = [(x, y) for panel in panels for x in range(*_span(panel, "x", "w")) for y in range(*_span(panel, "y", "h"))]
    assert len(cells) == len({*cells})
    assert max(x for x, _ in cells) < 24


def _span(panel, start, size):
    return panel["gridPos"][start], panel["gridPos"][start] + panel["gridPos"][size]


def test_grafana_knows_every_field_of_the_dashboard():
    board = dashboard()
    known = json.loads(json.dumps(Dashboard.from_json(board).to_json(), default=lambda one: one.to_json()))
    assert _common(known, board) == board


def _common(one, other):
    """What is in both, as in the first."""
    if isinstance(other, dict):
        return {key: _common(one[key], value) for key, value in other.items() if key in one}
    if isinstance(other, list):
        return [_common(*pair) for pair in zip(one, other, strict=True)]
    return one


def test_every_alert_says_what_happened_and_what_to_do():
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool, of Debian's package prometheus, is not installed")
def test_promtool_accepts_the_rules_and_the_configuration():
    done = subprocess.run(["promtool", "check", "config", "prometheus.yml"], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
