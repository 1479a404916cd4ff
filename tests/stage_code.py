"""The rule for the code that a stage depends on, and the list of what it leaves out.

**The rule.** In dvc.yaml a stage names, by file or folder, the modules that it imports, apart from those in EXEMPT: they say how a result
is reported, or refuse to start, and change no result. What only they import is left out too (REPORTED), apart from what is in SHARED. Of
the sections of params.yaml it names those of its `params` (apart from those in GATES) and those that its other modules import.
"""

from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[1]
GRAPH = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
STAGES = {name: stage for name, stage in GRAPH.items() if name not in ("fetch", "fingerprint")}
SECTIONS = Path("paddleship/config/sections")
IDENTIFIED = {  # what ships and computes is part of a candidate's identity, and all that ships of an image's
    **dict.fromkeys(("export", "optimize", "verify", "benchmark"), ("paddleship/shipped/computing",)),
    **dict.fromkeys(("package", "accept"), ("paddleship/__init__.py", "paddleship/errors.py", "paddleship/shipped")),
}

EXEMPT = {  # file or folder: why an edit of it makes no stage run again
    "paddleship/__init__.py": "names the public API, and switches telemetry off",
    "paddleship/errors.py": "names the errors and their exit codes; the module that raises one decides when",
    "paddleship/config/params.py": "lists the sections, and refuses values that contradict each other",
    "paddleship/config/credentials.py": "refuses params",
    "paddleship/config/graph_modes.py": "names what compare-graph-modes runs",
    "paddleship/config/loading.py": "reads params.yaml, whose values DVC compares",
    "paddleship/config/preflight.py": "refuses a machine or params that a stage cannot work with",
    "paddleship/config/preprocess_params.py": "asks preprocess kinds for their params, and refuses others",
    "paddleship/config/rules.py": "refuses params",
    "paddleship/config/validation_errors.py": "says what is wrong with params",
    "paddleship/config/watched.py": "refuses code that no stage would watch",
    "paddleship/config/workspace_paths.py": "refuses params",
    "paddleship/plots": "draws what a report says",
    "paddleship/reports/figures.py": "writes figures as text",
    "paddleship/reports/finding.py": "names the kinds of findings",
    "paddleship/reports/order.py": "sorts reports",
    "paddleship/reports/provenance.py": "says where a benchmark was measured",
    "paddleship/reports/row_scores.py": "packs what a report holds",
    "paddleship/reports/report.py": "the form of a report; older reports stay readable, or SCHEMA_VERSION is raised",
    "paddleship/reports/statuses.py": "the words for the status of a candidate",
    "paddleship/stage/frame.py": "starts a stage, writes its report and says how it ended",
    "paddleship/system/crash_location.py": "says on which line a process crashed",
    "paddleship/system/defects.py": "writes the traceback of a defect",
    "paddleship/system/disk.py": "says that a disk is full",
    "paddleship/system/locks.py": "lets processes wait for each other",
    "paddleship/system/output.py": "prints",
    "paddleship/system/source_imports.py": "imports users' code from its sources, whose changes make stages run again",
    "paddleship/system/own_folder.py": "makes folders that only their owner can read",
    "paddleship/system/progress.py": "shows progress",
    "paddleship/tracking": "sends the metrics of an epoch to MLflow while the model trains",
}

SHARED = {  # what the frame uses that does change results
    "paddleship/config/strict_yaml.py": "what the text of params.yaml means",
    "paddleship/reports/gate.py": "which findings fail a stage",
    "paddleship/stage/user_code.py": "which of several modules of one name is the user's",
}

REPORTED = {  # what a stage may import for the frame or for its report only
    "paddleship/shipped/computing/answers": "refuses params whose answer is not for the task",
    "paddleship/shipped/computing/paddle_logs.py": "silences Paddle",
    "paddleship/shipped/serving/transports/__init__.py": "refuses params that name an unknown transport",
    "paddleship/system/devices.py": "the machine in a report; host.json is a dep where the machine matters",
    "paddleship/system/environment.py": "the versions in a report; environment.json is a dep where they matter",
    "paddleship/system/host.py": "the machine in a report; host.json is a dep where the machine matters",
}

GATES = {  # (stage, section): why the section's module is no dep although a key of it is
    ("prepare", "verify"): "it reads verify.fail_on, a gate",
    ("train", "verify"): "it reads verify.fail_on and verify.timeout_s, a gate and a time limit",
    ("optimize", "verify"): "it reads verify.fail_on, a gate",
}


def deps(stage):
    """The code of ours that a stage names in dvc.yaml."""
    return {Path(dep) for dep in STAGES[stage]["deps"] if dep.startswith(("paddleship", "tasks"))}


def is_covered(path, folders):
    """Whether one of these files and folders is the path or above it."""
    return any(Path(folder) in (path, *path.parents) for folder in folders)


def needed(imports, stage):
    """The files that a stage is to name by the rule, by the graph of imports."""
    reached, ahead = set(), [f"tasks.{stage}"]
    while ahead:
        module = ahead.pop()
        if module not in reached and not is_covered(source(module), EXEMPT):
            reached.add(module)
            ahead += imports.find_modules_directly_imported_by(module)
    return {source(module) for module in reached} | own_sections(stage) | set(map(Path, (*SHARED, *IDENTIFIED.get(stage, ()))))


def left_out(imports, stage):
    """The files that a stage imports and does not name."""
    files = {source(module) for module in imports.find_upstream_modules(f"tasks.{stage}")}
    return {file for file in files if not is_covered(file, deps(stage))}


def own_sections(stage):
    """The modules of the sections that a stage's `params` name."""
    named = {key.partition(".")[0] for key in STAGES[stage]["params"]}
    files = {SECTIONS / f"{name}.py" for name in named if (stage, name) not in GATES}
    return {file for file in files if (REPOSITORY / file).is_file()}  # `name` and `seed` are no sections


def source(module):
    """The file of a module."""
    path = REPOSITORY.joinpath(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).relative_to(REPOSITORY)
