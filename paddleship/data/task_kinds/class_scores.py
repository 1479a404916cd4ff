"""What kinds with classes share: whether the first output has one score per class, and classes that no row has or no answer names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from paddleship.errors import ModelError
from paddleship.reports.finding import Finding, Severity
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.task_kinds import registry
from paddleship.shipped.computing.task_kinds.registration import Array

KIND = "class-count"
_FEWEST = 3  # test rows of a class from which it is a warning that the model never chooses it


def check(output: str, shape: Sequence[int], *, rows: int, classes: Sequence[str], largest_id: int, own_loss: bool) -> list[Finding]:
    """Compare the shape of the first output for a batch of `rows` rows with the classes; `largest_id` is the largest label.

    One score for two classes is a warning if the user's own loss accepts it. Raises ModelError for any other mismatch.
    """
    count = len(classes) or largest_id + 1
    if len(shape) == 2 and shape[0] == rows and (shape[1] == count or (not classes and shape[1] > largest_id)):
        return []
    source = f"data.classes names {count} classes" if classes else f"the labels go from 0 to {largest_id}"
    if own_loss and count == 2 and list(shape[1:]) in ([], [1]):
        message = f"the first output {output!r} has 1 logit, and {source}, so the score compares no classes and the server returns no label"
        return [Finding(KIND, "warning", message, "return one logit for each class, [batch, 2]")]
    found = f"{shape[1]} logits" if len(shape) == 2 and shape[0] == rows else f"the shape {list(shape)} for a batch of {rows}"
    raise ModelError(
        f"the first output {output!r} has {found}, and {source}: "
        f"let forward return [batch, {count}] as its first output (model.kwargs, model.factory), or correct data.classes"
    )


def unlabelled(candidate: Candidate) -> list[Finding]:
    """Why a candidate of a task with classes returns no label beside its scores; empty if it does."""
    decision = registry.get(candidate.task) if candidate.task is not None else None
    if decision is None or decision.names is None or candidate.labels:
        return []
    if not candidate.classes:
        return [
            Finding(KIND, "note", "data.classes is empty, so the server returns scores and no label", "name the classes in data.classes")
        ]
    first = candidate.outputs[0]
    if any(spec.name == "label" for spec in candidate.outputs):
        message = "the model has an output called 'label' of its own, so the server adds no class name under that name"
        return [Finding(KIND, "warning", message, "give it another name if clients need the class name")]
    shape, form = (", ".join(map(str, sizes)) for sizes in (first.shape, decision.form(len(candidate.classes))))
    message = (
        f"the first output {first.name!r} is [{shape}], and data.classes names {len(candidate.classes)} classes: the server returns no "
        "label"
    )
    return [Finding(KIND, "warning", message, f"let forward return [{form}] as its first output")]


def absent(present: Mapping[str, Sequence[bool]], classes: Sequence[str]) -> list[Finding]:
    """A warning for each of the training part and the test part in which classes of data.classes have no row; `present` by part."""
    findings = []
    for split, effect in (("train", "the model cannot learn them"), ("test", "the score says nothing about them")):
        names = [name for name, seen in zip(classes, present[split], strict=True) if not seen]
        if names:
            shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
            message = f"no row of the {split} part has these classes of data.classes, so {effect}: {shown}"
            findings.append(Finding("absent-class", "warning", message, "provide more rows of them, or correct data.classes"))
    return findings


def unchosen(counts: Mapping[int, int], rows: int, classes: Sequence[str], *, shares: Mapping[int, float]) -> list[Finding]:
    """A finding about classes that the model chooses for none of the test rows; `counts` are the rows that have each as their label.

    `shares` are those of all classes among the labels, which may be those of positions.
    """
    if not counts:
        return []
    severity: Severity = "warning" if max(counts.values()) >= _FEWEST else "note"
    named = ", ".join(f"{name(one, classes)} ({count:,} rows, {shares[one]:.1%} of the labels)" for one, count in list(counts.items())[:5])
    more = f" and {len(counts) - 5:,} more" if len(counts) > 5 else ""
    largest = f"the largest class has {max(shares.values()):.1%}"
    message = f"the model chooses these classes for none of the {rows:,} test rows: {named}{more}; {largest}"
    return [Finding("unchosen-class", severity, message, "provide more rows of them, or set train.class_weights")]


def shares(labels: Array) -> dict[int, float]:
    """The share of each class among labels."""
    identities, counts = np.unique(labels, return_counts=True)
    return {int(one): float(count / counts.sum()) for one, count in zip(identities, counts, strict=True)}


def name(identity: int, classes: Sequence[str]) -> str:
    """A class in a message."""
    return repr(classes[identity]) if identity < len(classes) else f"class {identity}"
