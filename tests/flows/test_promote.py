"""`paddleship promote`, `rollback` and `ledger` with a real engine, image registry, MLflow and Prefect, under a load that never stops."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager, suppress
from datetime import timedelta
from html import escape as html_text
from pathlib import Path
from urllib.error import HTTPError

import pytest

from benchmarks.promote.constant_load import calling, sending
from paddleship.acceptance.transports.grpc import triton
from paddleship.config import loading
from paddleship.config.sections.promote import Target
from paddleship.containers import image
from paddleship.drift import samples
from paddleship.promotion.ledger import Ledger, Shipped
from paddleship.rollout import promotion_gate
from paddleship.rollout.docker_target import DockerTarget
from paddleship.rollout.rollout_steps import STEPS, crown, note, start, switch
from tests.flows.helpers import prefect_api, wait_for
from tests.tasks.tracking.helpers import client

pytestmark = [pytest.mark.engine, pytest.mark.slow]

PATH, METHOD = "/v2/models/linear/infer", f"{triton.METHODS}ModelInfer"
X = {"name": "x", "datatype": "FP32", "shape": [1, 2]}
BODY = json.dumps({"inputs": [{**X, "data": [0.5, 1.5]}]}).encode()
MESSAGE = triton.message(model_name="linear", inputs=[{**X, "contents": {"fp32_contents": [0.5, 1.5]}}])


@pytest.fixture
def team(versions, tmp_path):
    """The same versions with a store and a ledger of this test."""
    team = versions.copy(tmp_path / "state")
    team.settings()
    return team


@pytest.fixture(scope="module")
def target(engine, proxy_image, free_port, tmp_path_factory):
    """A target on a port of its own, which is gone afterwards; its servers sample their requests."""
    sample = tmp_path_factory.mktemp("sample")
    sample.chmod(0o777)  # the servers have a user of their own, and only root may give them a folder
    name = f"test-{os.getpid()}-{free_port()}"
    settings = {"kind": "docker", "name": name, "port": free_port(), "grpc_port": free_port(), "sample": str(sample)}
    yield settings
    DockerTarget(engine, Target(**settings), memory_bytes=1).remove()


def served(target):
    """The digest of the candidate that the target's server says it holds."""
    with urllib.request.urlopen(f"http://127.0.0.1:{target['port']}/v2/models/linear", timeout=60) as answer:
        return json.load(answer)["parameters"]["candidate_digest"]


def digest(team, version):
    return json.loads((team.checkouts[version] / "release.json").read_text())["candidate_digest"]


def champion(team):
    """The number and the tags of the version that the alias names."""
    found = client(team.uri).get_model_version_by_alias("linear", "champion")
    return str(found.version), found.tags


def events(team):
    return [(entry.event, entry.shipped.version) for entry in Ledger(team.ledger, "linear").entries]


def test_a_promotion_by_the_gates_and_a_rollback_cost_no_client_an_answer(promoted, target, image_registry, engine):
    promoted.settings(registry=image_registry, target=target)
    before = events(promoted)
    moving = f"{image_registry}/{promoted.images}:champion"
    with (
        sending(target["port"], PATH, BODY, clients=2, pause_s=0.02) as client_side,
        calling(target["grpc_port"], METHOD, MESSAGE, clients=2, pause_s=0.02) as over_grpc,
    ):
        forth = promoted.run("1", "promote", "1")
        assert forth.returncode == 0, forth.stdout + forth.stderr
        assert served(target) == digest(promoted, "1")
        back = promoted.run("1", "rollback", "--reason", "answers \n too coarse")
        assert back.returncode == 0, back.stdout + back.stderr
    assert Ledger(promoted.ledger, "linear").entries[-1].why == "rolled back from version 1 to 2: answers too coarse"
    assert (client_side.errors, over_grpc.errors) == ([], [])
    assert client_side.sent > 500
    assert over_grpc.sent > 500
    sampled = samples.read(Path(target["sample"]), hours=1, digest=digest(promoted, "1"))
    assert sampled.rows > 0, "the server that was retired wrote what it counted"
    assert forth.stdout.splitlines()[-1].endswith("in the place of version 2")
    assert {"champion_metric_drop_high", "latency_against_champion", "accepted_image", "answered_rows"} <= {
        check["name"] for check in report(promoted, "1")["verdict"]["checks"]
    }
    assert re.match(
        r"version 2 of linear is champion and serves as \S+ at 127\.0\.0\.1:\d+, in the place of version 1, in \d+\.\d s$",
        back.stdout.splitlines()[-1],
    )
    assert served(target) == digest(promoted, "2")
    alias, tags = champion(promoted)
    assert alias == "2"
    assert tags["reference"].startswith(f"{image_registry}/{promoted.images}@sha256:")
    assert engine.images.pull(moving).id == tags["image_id"]
    assert not image.exists(engine, moving.replace("champion", "latest"))
    assert events(promoted)[len(before) :] == [(event, version) for version in "12" for event in ("decided", "serving", "settled")]


def report(team, version):
    return json.loads((team.checkouts[version] / "reports/promote.json").read_text())


def killed(team, command, version, step):
    """Give the command to a process that is killed before the step of that number."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.flows.kill_before", str(step), command, version],
        cwd=team.checkouts[version],
        env=team.env(version),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


@pytest.fixture(scope="module")
def two_at_once(versions, target, tmp_path_factory):
    """Version 1 was promoted, then version 2 by two commands at once; the first command, and the two with what each said."""
    team = versions.copy(tmp_path_factory.mktemp("promoted") / "state")
    team.settings(target=target, compare=False)
    first = team.run("1", "promote", "1")
    assert first.returncode == 0, first.stdout + first.stderr
    started = [team.start("2", "promote") for _ in range(2)]
    return team, first, [(process, process.communicate(timeout=300)[0]) for process in started]


@pytest.fixture
def promoted(two_at_once, engine, target, tmp_path):
    """Version 1 was champion, version 2 is: with a store and a ledger of this test, and the target as it was."""
    team = two_at_once[0].copy(tmp_path / "state")
    team.settings(target=target, compare=False)
    target_host = DockerTarget(engine, Target(**target), memory_bytes=1_000_000_000)
    image_id = json.loads((team.checkouts["2"] / "release.json").read_text())["image_id"]
    slot = target_host.start(image_id, before=None)
    target_host.wait_until_ready(slot, timeout_s=300)
    target_host.switch(slot)
    target_host.retire()
    return team


def state(team, run):
    """The type of a flow run's state."""
    return api(team, f"flow_runs/{run}")["state"]["type"]


def assert_in_place(team, target, version):
    assert served(target) == digest(team, version)
    assert champion(team)[0] == version
    ledger = Ledger(team.ledger, "linear")
    assert ledger.serving().shipped.version == version
    assert ledger.unfinished() is None
    client = image.connect()
    names = [container.name for container in client.containers.list(all=True, filters={"label": f"io.paddleship.target={target['name']}"})]
    client.close()
    assert len(names) == 2, f"one server and the proxy: {names}"


@pytest.mark.long  # the next test kills a promotion after the switch
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_command_that_was_killed_before_any_step_leaves_a_champion_and_is_completed_by_the_same_command(promoted, target, step):
    with (
        sending(target["port"], PATH, BODY, clients=2) as client_side,
        calling(target["grpc_port"], METHOD, MESSAGE, clients=2) as over_grpc,
    ):
        killed(promoted, "rollback", "1", STEPS.index(step))
        assert (served(target) == digest(promoted, "1")) == (STEPS.index(step) > STEPS.index(switch))
        again = promoted.run("1", "rollback", "1")
        assert again.returncode == 0, again.stdout + again.stderr
        assert_in_place(promoted, target, "1")
    assert (client_side.errors, over_grpc.errors) == ([], [])


def test_a_promotion_that_was_killed_is_completed_without_being_judged_again(promoted, target):
    killed(promoted, "promote", "1", STEPS.index(note))
    (dead,) = (path.stem for path in (promoted.checkouts["1"] / ".paddleship/flows").iterdir())
    assert state(promoted, dead) == "RUNNING"
    ledger = promoted.run("1", "ledger")
    assert ledger.returncode == 0, ledger.stderr
    assert f"flow run {dead} was killed earlier: Prefect shows it as Crashed" in ledger.stderr
    assert state(promoted, dead) == "CRASHED"
    again = promoted.run("1", "promote", "1")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "nothing is judged again" in again.stderr
    assert_in_place(promoted, target, "1")
    repeated = promoted.run("1", "promote", "1")
    assert repeated.returncode == 0, repeated.stderr
    assert "in the place of" not in repeated.stdout, "it served already"


def test_a_rollback_gives_up_a_promotion_that_had_begun_and_the_next_goes_one_champion_back(promoted, target):
    killed(promoted, "promote", "1", STEPS.index(start))
    done = promoted.run("2", "rollback")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " as before; the promotion of version 1, which had begun, is given up; " in done.stdout
    assert_in_place(promoted, target, "2")
    again = promoted.run("2", "rollback", "2")
    assert "is champion and serves" in again.stdout
    assert " as before, in" in again.stdout
    done = promoted.run("2", "rollback")
    assert "as before" not in done.stdout
    assert_in_place(promoted, target, "1")


def test_a_target_at_another_address_than_the_proxy_is_refused_before_anything_is_judged(promoted, target):
    before = events(promoted)
    promoted.settings(target={**target, "port": target["port"] + 1})
    done = promoted.run("1", "promote", "1")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "stands at 127.0.0.1:" in done.stderr
    assert events(promoted) == before


def test_two_promotions_at_once_end_with_one_champion_each_in_its_turn(two_at_once, promoted, target):
    _, first, both = two_at_once
    assert first.stdout.splitlines()[-1] == f"version 1 of linear is champion and serves as {target['name']} at 127.0.0.1:{target['port']}"
    assert "there is none to compare it with" in Ledger(promoted.ledger, "linear").entries[0].why
    codes, said = sorted(process.returncode for process, _ in both), "".join(words for _, words in both)
    assert codes in ([0, 0], [0, 4]), said
    if 4 in codes:
        assert "the champion changed from version 1 to 2 meanwhile: run the same command again" in said
    assert_in_place(promoted, target, "2")
    assert events(promoted).count(("serving", "2")) == 1


@contextmanager
def waiting(team, version):
    """A promotion that waits for a person, its flow run, and what the form shows."""
    process = team.start(version, "promote", version)

    def form():
        for run in api(team, "flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}}):
            keys = run["state"]["state_details"]["run_input_keyset"]
            with suppress(HTTPError):  # the run pauses first, and then its form is written
                return run["id"], api(team, f"flow_runs/{run['id']}/input/{keys['description']}")
        return None

    with process:
        try:
            yield (process, *wait_for(form))
        finally:
            process.kill()


def api(team, path, body=None):
    return prefect_api(team.environment["PREFECT_API_URL"], path, body)


def test_a_promotion_waits_for_a_person_who_sees_the_evidence(team):
    team.settings(approval="human")
    with waiting(team, "1") as (process, run, shown):
        assert "accepted_image" in shown
        assert api(team, f"flow_runs/{run}")["name"].startswith("promote linear version 1 (")
        assert "killed" not in team.run("1", "ledger").stderr, "it lives"
        assert "there is none to compare it with" in shown
        api(team, f"flow_runs/{run}/resume", {"run_input": {"approve": True, "who": "Ada", "reason": "looks right"}})
        said = process.communicate(timeout=300)[0]
    assert process.returncode == 0, said
    serving = Ledger(team.ledger, "linear").serving()
    assert serving.approved_by == "Ada"
    assert serving.why.endswith("; looks right")
    assert champion(team)[0] == "1"


def test_without_a_page_that_shows_the_form_nothing_begins(team):
    team.settings(approval="human")
    del team.environment["PREFECT_API_URL"]
    done = team.run("1", "promote", "1")
    assert done.returncode == 2
    assert "no Prefect server shows the form: run `make ui`" in done.stderr


def test_who_refuses_in_the_form_is_named_in_the_ledger_and_nothing_moves(team):
    team.settings(approval="human")
    with waiting(team, "1") as (process, run, _):
        api(team, f"flow_runs/{run}/resume", {"run_input": {"approve": False, "who": "Ada", "reason": "not on a Friday"}})
        said = process.communicate(timeout=300)[0]
    assert process.returncode == 3, said
    assert "error: promote: Ada refused it: not on a Friday" in said
    assert events(team) == [("refused", "1")]


def test_a_decision_that_nobody_approved_is_not_carried_out_where_a_person_has_to(team, engine):
    team.settings(registry="127.0.0.1:9")
    assert team.run("1", "promote", "1").returncode == 4, "it is decided, and the registry is away"
    assert engine.images.list(name=f"127.0.0.1:9/{team.images}") == [], "no name stays of what was not pushed"
    team.settings(approval="human")
    with waiting(team, "1") as (process, run, _):
        api(team, f"flow_runs/{run}/resume", {"run_input": {"approve": False, "who": "Ada", "reason": "not so"}})
        said = process.communicate(timeout=300)[0]
    assert process.returncode == 3, said
    assert events(team) == [("decided", "1"), ("refused", "1")]
    assert Ledger(team.ledger, "linear").unfinished() is None


def test_a_challenger_is_not_compared_with_a_champion_that_no_longer_serves(promoted, target):
    killed(promoted, "rollback", "1", STEPS.index(crown))
    assert (served(target), champion(promoted)[0]) == (digest(promoted, "1"), "2"), "MLflow has not heard of it"
    done = promoted.run("2", "promote", "2")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "version 1 serves, but the champion in MLflow is version 2: update MLflow with `paddleship promote 1`" in done.stderr
    again = promoted.run("1", "promote", "1")
    assert again.returncode == 0, again.stdout + again.stderr
    assert_in_place(promoted, target, "1")


def test_without_a_target_nothing_is_said_to_serve_until_the_version_gets_one(team, target):
    first = team.run("1", "promote", "1")
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.splitlines()[-1] == "version 1 of linear is champion; promote.target is null, so no server was started or changed"
    assert "  champion  version 1" in team.run("1", "ledger").stdout
    team.settings(target=target)
    again = team.run("1", "promote", "1")
    assert again.returncode == 0, again.stdout + again.stderr
    assert served(target) == digest(team, "1")
    where = f"{target['name']} at 127.0.0.1:{target['port']}"
    assert [entry.target for entry in Ledger(team.ledger, "linear").entries if entry.event == "serving"] == [None, where]
    assert f"serves as     {where}" in team.run("1", "ledger", "--at", "2999-01-01").stdout


def moving_tag(engine, registry, images):
    """The id of the image that the tag `champion` names in a registry."""
    return engine.images.pull(f"{registry}/{images}:champion").id


def image_id(team, version):
    return json.loads((team.checkouts[version] / "release.json").read_text())["image_id"]


def test_a_version_that_was_pushed_elsewhere_is_pushed_to_the_registry_of_the_params(team, engine, image_registry):
    old, new = f"{image_registry}/old", f"{image_registry}/new"
    team.settings(registry=old, compare=False)
    assert team.run("1", "promote", "1").returncode == 0
    team.settings(registry=new, compare=False)
    again = team.run("1", "promote", "1")
    assert again.returncode == 0, again.stdout + again.stderr
    assert Ledger(team.ledger, "linear").serving().shipped.reference.startswith(f"{new}/{team.images}@sha256:")
    assert champion(team)[1]["reference"].startswith(f"{new}/")
    assert moving_tag(engine, new, team.images) == moving_tag(engine, old, team.images) == image_id(team, "1")
    stale = team.run("2", "promote", "2")
    assert stale.returncode == 4, stale.stdout + stale.stderr
    assert f"{old}/{team.images}:champion, where promote.registry was before, still names version 1: delete that tag" in stale.stderr
    assert moving_tag(engine, new, team.images) == image_id(team, "2")
    engine.images.get(image_id(team, "2")).tag(f"{old}/{team.images}", "champion")
    engine.images.push(f"{old}/{team.images}", "champion")
    settled = team.run("2", "promote", "2")
    assert settled.returncode == 0, settled.stdout + settled.stderr


def test_a_rollback_does_not_wait_for_a_registry_that_never_had_the_image(team, image_registry):
    team.settings(registry=image_registry, compare=False)
    for version in "12":
        assert team.run(version, "promote", version).returncode == 0
    team.settings(registry="127.0.0.1:9", compare=False)
    back = team.run("2", "rollback")
    assert back.returncode == 4, back.stdout + back.stderr
    assert "version 1 is champion in the ledger, but 127.0.0.1:9 did not take its image: when it does, run the same" in back.stderr
    assert Ledger(team.ledger, "linear").serving().shipped.version == "1"


def test_a_promotion_that_leaves_another_target_alone_says_what_serves_there(promoted, target):
    where = f"{target['name']} at 127.0.0.1:{target['port']}"
    promoted.settings(compare=False)
    done = promoted.run("1", "promote", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].endswith(f"no server was started or changed; {where} still serves version 2")
    assert served(target) == digest(promoted, "2")
    assert f"  not changed   {where}: version 2" in promoted.run("1", "ledger", "--at", "2999-01-01").stdout


def test_a_version_whose_evidence_is_elsewhere_is_refused_with_the_way_there(team):
    done = team.run("2", "promote", "1")
    assert done.returncode == 2
    assert "is not of version 1 of 'linear'" in done.stderr
    assert "`paddleship trace" in done.stderr


def test_an_image_that_took_the_accepted_ones_name_is_not_promoted_in_its_place(team, engine):
    release = json.loads((team.checkouts["1"] / "release.json").read_text())
    other = json.loads((team.checkouts["2"] / "release.json").read_text())
    name, _, tag = release["image"].rpartition(":")
    engine.images.get(other["image_id"]).tag(name, tag)
    try:
        done = team.run("1", "promote", "1")
    finally:
        engine.images.get(release["image_id"]).tag(name, tag)
    assert done.returncode == 0, done.stderr
    assert {entry.shipped.image_id for entry in Ledger(team.ledger, "linear").entries} == {release["image_id"]}


def test_a_rollback_needs_neither_mlflow_nor_the_registry_to_serve_again(promoted, target):
    done = promoted.run("2", "rollback", MLFLOW_TRACKING_URI="http://127.0.0.1:1")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "version 1 serves, but MLflow did not answer: when it does, run the same command again" in done.stderr
    assert served(target) == digest(promoted, "1")
    again = promoted.run("2", "rollback", PREFECT_API_URL="http://127.0.0.1:1/api")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Prefect does not answer at http://127.0.0.1:1/api" in again.stderr
    assert_in_place(promoted, target, "1")
    assert "Flow run" not in again.stderr, "no Prefect server was started for it"


def test_the_ledger_says_what_served_when_and_why(promoted):
    entries = Ledger(promoted.ledger, "linear").entries
    second = next(entry for entry in entries if (entry.event, entry.shipped.version) == ("serving", "2"))
    before = (second.at - timedelta(milliseconds=1)).isoformat()
    then = promoted.run("1", "ledger", "--at", before).stdout
    assert then.startswith("version 1 of linear, since ")
    assert "version 2 has been replacing it since" in then
    promoted.ledger.unlink()
    today = promoted.run("1", "ledger", "--at", f"{second.at:%Y-%m-%d}").stdout
    assert today.startswith("version 2 of linear, since ")
    assert "they were not compared (promote.compare: false)" in today
    assert promoted.run("1", "ledger", "--at", "2020-01-01").stdout == "nothing of 'linear' served at 2020-01-01 23:59 UTC\n"
    assert len(promoted.run("1", "ledger").stdout.splitlines()) == len(entries)
    assert promoted.run("1", "ledger", "--at", "someday").returncode == 2


@pytest.mark.long
def test_a_comparison_of_two_images_equals_that_of_promote(versions, engine, tmp_path, monkeypatch):
    versions.settings()
    one, other = (json.loads((versions.checkouts[version] / "release.json").read_text()) for version in "12")
    monkeypatch.chdir(versions.checkouts["2"])
    shipped = [
        Shipped(model="linear", version=version, **{key: release[key] for key in ("image", "image_id", "candidate_digest")})
        for version, release in zip("12", (one, other), strict=True)
    ]
    judged, _ = promotion_gate.challenge(loading.load(Path("params.yaml")), engine, shipped[1], shipped[0])
    page, elsewhere = tmp_path / "comparison.html", tmp_path / "elsewhere"
    elsewhere.mkdir()
    arguments = ["--rows", str(versions.checkouts["2"] / "data/prepared/test.parquet"), "--limit", "50", "--seconds", "2"]

    def compare(*names):
        command = [sys.executable, "-m", "paddleship.cli.main", "images", "compare", *names, *arguments, "--html", str(page)]
        return subprocess.run(command, cwd=elsewhere, env=versions.env("2"), capture_output=True, text=True, check=False, timeout=300)

    done = compare(one["image"], other["image"])
    assert done.returncode == 0, done.stderr
    metric, after, _, before, *_ = judged.facts["scores"].split()
    assert [line.split()[:3] for line in done.stdout.splitlines() if line.startswith(metric)] == [[metric, before, after]]
    drop = [judged.metrics[f"champion_metric_drop{end}"] for end in ("", "_high", "_low")]
    assert "{}, 95% interval {} to {}".format(*(f"{-one:+z.2g}" for one in drop)) in done.stdout
    shown = [text for example in judged.facts["examples"] for text in (example["champion"], example["challenger"])]
    assert shown
    assert all(text in done.stdout for text in shown)
    answer = next(line for line in done.stdout.splitlines() if not line.startswith("measuring "))
    assert html_text(answer.partition("`")[0]) in page.read_text(), "behind it is a command, which the page marks"
    folder = versions.checkouts["2"] / "models/candidates" / other["candidate"]
    built = compare(one["image"], str(folder))
    assert built.returncode == 0, built.stderr
    assert f"{metric} " in built.stdout
    assert not [tag for stored in engine.images.list() for tag in stored.tags if tag.startswith("paddleship/compared")]
