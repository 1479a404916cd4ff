"""`make ui`, a worker, and `prefect deployment run`: everything real, on ports of its own, with the linear example."""

import json
import os
import re
import signal
import subprocess
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
import yaml

from paddleship.servers import background
from tests.flows.helpers import PREFECT, PROGRAM, git, is_alive, mlflow_runs, prefect_api, wait_for

SLOW_MODEL = "\n\ndef hang(**_):\n    import time\n\n    open('hanging', 'w').close()\n    time.sleep(600)\n"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(linear_checkout_of, with_tables, free_port):
    """A committed checkout whose `make ui` and worker run; its user has exported nothing but the two ports."""
    checkout = with_tables(linear_checkout_of("served"))
    with (checkout / "examples/linear/model.py").open("a") as model:
        model.write(SLOW_MODEL)
    git(checkout, "commit", "-qam", "linear")
    ports = {"PREFECT_PORT": str(free_port()), "MLFLOW_PORT": str(free_port())}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW"))} | ports
    started = subprocess.run([PROGRAM, "ui"], cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert started.returncode == 0, started.stderr
    with (checkout / ".paddleship/worker.log").open("w") as log:
        worker = subprocess.Popen([PROGRAM, "worker"], cwd=checkout, env=environment, stdout=log, stderr=log, start_new_session=True)
        yield checkout, environment, started.stdout
        worker.send_signal(signal.SIGTERM)
        worker.wait(300)
    ended = subprocess.run([PROGRAM, "stop"], cwd=checkout, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "stopped prefect, mlflow\n"
    assert not (checkout / "prefect.toml").exists()


@pytest.fixture
def deploy(served):
    """`prefect deployment run … --watch` in the checkout, with no variable that points Prefect anywhere."""
    checkout, environment, _ = served
    plain = {name: value for name, value in environment.items() if not name.startswith(("PREFECT", "MLFLOW"))}

    def run(**parameters):
        given = [word for name, value in parameters.items() for word in ("--param", f"{name}={json.dumps(value)}")]
        command = [PREFECT, "deployment", "run", "develop-to-deploy/local", "--watch", *given]
        return subprocess.run(command, cwd=checkout, env=plain, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def follow(served):
    """`paddleship run --deployment` in the checkout, with a file of params or none."""
    checkout, environment, _ = served

    def run(name, *arguments):
        command = [PROGRAM, "run", "--deployment", name, *arguments]
        return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)

    return run


def api(checkout, path, body):
    return prefect_api(f"{background.running(checkout / '.paddleship', 'prefect')}/api", path, body)


def test_ui_prints_both_addresses_and_they_answer(served):
    checkout, _, printed = served
    for name in ("prefect", "mlflow"):
        url = background.running(checkout / ".paddleship", name)
        assert url in printed
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 loopback
            assert b"<html" in answer.read().lower()


def test_ui_again_finds_what_runs_and_keeps_the_limit_of_a_pool(served):
    checkout, environment, printed = served
    ports = {"PREFECT_PORT": "1", "MLFLOW_PORT": "1"}
    limit = [PREFECT, "work-pool", "set-concurrency-limit", "local", "3"]
    subprocess.run(limit, cwd=checkout, env=environment, check=True, capture_output=True)
    again = subprocess.run([PROGRAM, "ui"], cwd=checkout, env=environment | ports, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    told = [line for line in again.stdout.splitlines() if " already: for port 1, run `make stop` first" in line]
    assert [line.split()[0] for line in told] == ["prefect", "mlflow"]
    assert [line for line in again.stdout.splitlines() if line not in told] == printed.splitlines()
    assert api(checkout, "work_pools/filter", {"work_pools": {"name": {"any_": ["local"]}}})[0]["concurrency_limit"] == 3


def test_the_form_has_every_section_with_its_descriptions(served):
    found = [one for one in api(served[0], "deployments/filter", {}) if "run_stages" not in one["entrypoint"]]  # those of prefect.yaml
    assert len(found) == 8
    (deployment,) = [one for one in found if one["entrypoint"].endswith(":develop_to_deploy")]
    schema = json.dumps(deployment["parameter_openapi_schema"])
    for words in ("evaluations without a better loss or score", "The last stage to run", "a separate git worktree"):
        assert words in schema
    assert set(deployment["parameter_openapi_schema"]["properties"]) == {
        "overrides",
        "params_file",
        "until",
        "isolated",
        "commit",
        "register_model",
        "pools",
        "again",
        "timeout_s",
        "trigger",
    }


@pytest.mark.parametrize(
    ("flow", "words", "asked"),
    [
        ("promote", "Number of the model version, or an alias", {"version", "params_file"}),
        ("rollback", "that was champion", {"version", "params_file", "reason"}),
    ],
)
def test_promotion_and_rollback_are_deployments_with_a_form_that_says_what_to_fill_in(served, flow, words, asked):
    (deployment,) = [one for one in api(served[0], "deployments/filter", {}) if one["entrypoint"].endswith(f":{flow}")]
    properties = deployment["parameter_openapi_schema"]["properties"]
    assert set(properties) == asked
    assert words in properties["version"]["description"]
    assert deployment["global_concurrency_limit"]["limit"] == 1


def test_the_form_of_a_sweep_says_what_a_space_is(served):
    (deployment,) = [one for one in api(served[0], "deployments/filter", {}) if one["entrypoint"].endswith(":sweep")]
    schema = deployment["parameter_openapi_schema"]
    assert set(schema["properties"]) == {"settings", "params_file", "commit", "deployment"}
    for words in (
        "param by its path, such as train.learning_rate",
        "variants that run at the same time",
        "such as develop-to-deploy/local",
    ):
        assert words in json.dumps(schema)


def test_the_forms_of_retrain_and_drift_say_what_to_fill_in_and_their_schedules_are_off(served):
    found = {one["entrypoint"].rpartition(":")[2]: one for one in api(served[0], "deployments/filter", {})}
    for name, words in (("retrain", "whose last commit is fetched"), ("drift", "that servers write their request samples to")):
        properties = found[name]["parameter_openapi_schema"]["properties"]
        assert all(one["description"] for one in properties.values())
        assert words in json.dumps(properties)
        assert [schedule["active"] for schedule in found[name]["schedules"]] == [False] * (2 if name == "retrain" else 1)
    weekly, data = sorted(found["retrain"]["schedules"], key=lambda schedule: len(schedule["parameters"]))
    (hourly,) = found["drift"]["schedules"]
    assert hourly["parameters"] == {"retrain": True}
    assert found["drift"]["parameters"] == {}, "a run by hand starts no retraining"
    assert weekly["parameters"] == {"trigger": "schedule"}
    assert data["parameters"] == {"trigger": "new data", "watch": "data"}


def request_sample(folder, *, requests):
    """A sample of a server: 1,000 training rows half and half, and this many requests in each bin."""
    feature = {"name": "x[0]", "low": 0, "high": 0, "cuts": [], "values": [0.0, 1.0], "counts": [500, 500, 0]}
    hours = {f"{datetime.now(UTC):%Y-%m-%dT%H}": {"rows": sum(requests), "counts": [requests] * 2}}
    head = {"schema_version": 1, "model": "linear", "candidate": "onnxruntime", "candidate_digest": "a" * 64}
    profile = {"rows": 1000, "left_out": [], "features": [feature, {**feature, "name": "x[1]"}]}
    folder.mkdir(exist_ok=True)
    (folder / "server-8000.requests.json").write_text(json.dumps({**head, "profile": profile, "hours": hours}))


@pytest.mark.long
def test_drift_becomes_an_event_and_one_retraining_that_says_so(served, tmp_path):
    checkout, environment, _ = served

    (checkout / "ours.yaml").write_text("seed: 3\n")
    (checkout / "other.yaml").write_text("name: other\n")

    def check(requests, *arguments):
        request_sample(tmp_path / "samples", requests=requests)
        command = [PROGRAM, "drift", "--sample", str(tmp_path / "samples"), *arguments]
        return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)

    def retrainings():
        (deployment,) = [one for one in api(checkout, "deployments/filter", {}) if one["entrypoint"].endswith(":retrain")]
        return api(checkout, "flow_runs/filter", {"deployments": {"id": {"any_": [deployment["id"]]}}})

    ours = ("--params", "ours.yaml")
    other = check([900, 100, 0], "--params", "other.yaml")
    assert other.returncode == 2
    assert "is of the model 'linear', and the params are of 'other': give the params of that model" in other.stderr
    same = check([510, 490, 0], *ours)
    assert same.returncode == 0, same.stderr
    assert "no drift found in 2 features of 1,000 requests" in same.stdout
    looked = check([900, 100, 0], *ours)
    assert looked.returncode == 3, looked.stderr
    assert "sent to Prefect" not in looked.stdout, "nobody asked for a retraining"
    drifted = check([900, 100, 0], *ours, "--retrain")
    assert drifted.returncode == 3, drifted.stderr
    assert "sent to Prefect as events: x[0], x[1]" in drifted.stdout
    (run,) = wait_for(retrainings)
    assert run["parameters"] == {"trigger": "drift of x[0], x[1]", "params_file": "ours.yaml"}
    wait_for(lambda: retrainings()[0]["name"] == "retrain: drift of x[0], x[1]")
    subprocess.run([PREFECT, "flow-run", "cancel", run["id"]], cwd=checkout, env=environment, check=True, capture_output=True)
    wait_for(lambda: retrainings()[0]["state_type"] == "CANCELLED")
    assert {"retrain", "drift of x[0], x[1]"} <= set(retrainings()[0]["tags"])
    assert "sent to Prefect" not in check([900, 100, 0], *ours, "--retrain").stdout, "it knows"
    wanted = {"event": {"name": ["paddleship.drift"]}}
    events = api(checkout, "events/filter", {"filter": wanted})
    assert sorted(one["payload"]["feature"] for one in events["events"]) == ["x[0]", "x[1]"]
    assert len(retrainings()) == 1
    command = [
        PREFECT,
        "deployment",
        "run",
        "drift/local",
        "--watch",
        "--param",
        f"sample={tmp_path / 'samples'}",
        "--param",
        "params_file=ours.yaml",
    ]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (artifact,) = api(checkout, "artifacts/filter", {"artifacts": {"key": {"any_": ["drift"]}}})
    assert artifact["data"].startswith("**2 of 2 features drifted in 1,000 requests: x[0], x[1].**")
    assert "(data:image/png;base64," in artifact["data"]


@pytest.mark.long
def test_a_sweep_lets_a_worker_run_its_variants_and_a_worker_can_run_the_sweep(served):
    checkout, environment, _ = served
    (checkout / "space.yaml").write_text(yaml.safe_dump({"sweep": {"space": {"train.epochs": [2, 3]}, "choose": "size"}}))
    command = [PROGRAM, "sweep", "--params", "space.yaml", "--deployment", "develop-to-deploy/local"]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"epochs=[23] +done", done.stdout)) == 2
    assert "its variants http" in done.stdout
    settings = json.dumps({"space": {"train.epochs": [2, 3]}, "choose": "latency"})
    command = [PREFECT, "deployment", "run", "sweep/local", "--watch", "--param", f"settings={settings}"]
    again = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert len(list((checkout / ".paddleship/sweeps").iterdir())) == 1, "the same sweep, whoever runs it"


def test_a_silent_run_is_marked_crashed_by_an_automation(served):
    (automation,) = [one for one in api(served[0], "automations/filter", {}) if "silent" in one["name"]]
    assert automation["trigger"]["posture"] == "Proactive"
    assert automation["enabled"]


def test_a_run_that_a_person_starts_gives_signs_of_life_too(served):
    """Without them the automation marks it crashed while it works."""
    checkout, environment, _ = served
    others = {run["id"] for run in api(checkout, "flow_runs/filter", {})}
    done = subprocess.run(
        [PROGRAM, "run", "--until", "prepare"], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (run,) = [run for run in api(checkout, "flow_runs/filter", {}) if run["id"] not in others]
    wanted = {"event": {"name": ["prefect.flow-run.heartbeat"]}, "resource": {"id": [f"prefect.flow-run.{run['id']}"]}}
    assert wait_for(lambda: api(checkout, "events/filter", {"filter": wanted})["total"])


def test_two_runs_side_by_side_end_with_their_own_codes_and_leave_the_checkout_alone(served, deploy, follow, tmp_path):
    checkout = served[0]
    (tmp_path / "gate.yaml").write_text(yaml.safe_dump({"train": {"epochs": 2, "min_score": 0.999999}}))
    with ThreadPoolExecutor(2) as pool:
        passing = pool.submit(deploy, until="train", overrides={"train": {"epochs": 3}})
        missing = pool.submit(follow, "develop-to-deploy/local", "--until", "train", "--params", str(tmp_path / "gate.yaml"))
        good, bad = passing.result(), missing.result()
    assert good.returncode == 0, good.stdout + good.stderr
    assert bad.returncode == 3, "the command has the exit code of the run that it follows"
    assert bad.stdout.splitlines()[-1] == "GateFailed"
    assert git(checkout, "status", "--porcelain", "--untracked-files=no") == ""
    assert not (checkout / "models").exists()
    runs = api(checkout, "flow_runs/filter", {})
    failed = next(run for run in runs if run["state_name"] == "GateFailed")
    assert "validation_r2" in failed["state"]["message"]
    tasks = api(checkout, "task_runs/filter", {"flow_runs": {"id": {"any_": [failed["id"]]}}})
    assert {task["name"] for task in tasks} == {"prepare", "train"}
    (artifact,) = api(checkout, "artifacts/filter", {"flow_runs": {"id": {"any_": [failed["id"]]}}})
    assert artifact["key"] == "summary", "the first thing on the page, since it is the only one"
    assert artifact["description"] == "failed at train"
    assert artifact["data"].startswith("**Failed: train: validation_r2 is ")
    assert re.search(r"^\* \*\*train\*\* \(failed, .+ s\): failed.*: the error above$", artifact["data"], re.MULTILINE)
    assert re.search(r"\* \[The report\]\(http.+/artifacts/report.html\)\n", artifact["data"])
    assert re.search(r"\* \[Which run is better\]\(http.+\)\n\* \[This run in MLflow\]\(http.+\)$", artifact["data"])


def test_a_wrong_value_is_refused(deploy):
    done = deploy(until="train", overrides={"train": {"epochs": 0}})
    assert done.returncode == 1


def test_bad_input_of_a_run_that_a_worker_does_ends_the_command_that_follows_it_with_2(served, follow, tmp_path):
    done = follow("develop-to-deploy/local", "--until", "train", "--params", str(tmp_path / "none.yaml"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "BadInput"
    log = served[0] / ".paddleship/worker.log"
    wait_for(lambda: "/none.yaml' does not exist" in log.read_text())
    assert "Traceback" not in log.read_text()
    none = follow("x/y")
    assert none.returncode == 2
    assert "there is no deployment 'x/y'" in none.stderr


def test_cancel_ends_the_whole_process_tree(served):
    checkout, environment, _ = served
    overrides = {"model": {"factory": "examples.linear.model:hang"}}
    (deployment,) = [one for one in api(checkout, "deployments/filter", {}) if one["entrypoint"].endswith(":develop_to_deploy")]
    run = api(checkout, f"deployments/{deployment['id']}/create_flow_run", {"parameters": {"until": "train", "overrides": overrides}})
    folder = checkout / ".paddleship/runs" / run["id"]
    wait_for((folder / "hanging").exists)
    pids = running_in(folder)
    assert pids
    subprocess.run([PREFECT, "flow-run", "cancel", run["id"]], cwd=checkout, env=environment, check=True, capture_output=True)
    wait_for(lambda: not any(is_alive(pid) for pid in pids))

    def state():
        return api(checkout, "flow_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})[0]["state_type"]

    wait_for(lambda: state() == "CANCELLED")
    assert "KILLED" in [status for status, failure in mlflow_runs(checkout) if failure == "ended by TerminationSignal"]
    assert yaml.safe_load((folder / "params.yaml").read_text())["model"]["factory"].endswith(":hang"), "the folder of the run is kept"


def test_a_ci_job_lets_retrain_run_its_commit_and_reports_from_the_run_that_it_started(served, tmp_path):
    checkout, environment, _ = served
    command = [PROGRAM, "ci", "--deployment", "retrain/local", "--until", "prepare", "--force", "--report", str(tmp_path / "ci.md")]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = [one for one in api(checkout, "flow_runs/filter", {}) if one["name"] == "retrain: CI"]
    assert run["state_name"] == "Completed"
    text = (tmp_path / "ci.md").read_text()
    assert text.startswith("**All 1 gates up to prepare passed")
    assert f"of commit `{git(checkout, 'rev-parse', 'HEAD').strip()}`" in text


def running_in(folder):
    """Processes that work in `folder`."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
