"""A task of the user's own, whose functions data.task names. A server answers no label: params.answer says what it answers."""

from __future__ import annotations

from paddleship.shipped.computing.task_kinds.registration import Decision

DECISION = Decision(
    "custom",
    labels="what the functions read that {metric: module:function, …} names in its place",
    functions={"metric": True, "decision": False, "loss": False},
)
