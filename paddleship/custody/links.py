"""The links of custody: for each stage, the outs that it reads and the params that its own out depends on.

A gate is bound to the out that it judged: with another value, the stage judges again. A time limit or a plot changes neither out nor
judgement, so those are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from paddleship.config.params import Params


@dataclass(frozen=True)
class Link:
    """The link of one stage.

    `out` is the key of its folder in params.paths, `inputs` are the stages whose outs it reads. `params` are dotted keys, without those of
    `except_for`. `code`: its out depends on the user's code. `versions`: its out depends on the installed libraries. `package` and `accept`
    have an image instead of a folder: `accept` compares what `package` would build with the image, and its params with the receipt.
    """

    out: str = ""
    inputs: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    except_for: tuple[str, ...] = ()
    code: bool = True
    versions: bool = False

    def folder(self, params: Params) -> Path:
        return Path(getattr(params.paths, self.out))

    def values(self, params: Params) -> dict[str, Any]:
        """The values of its params, by dotted key."""
        every: dict[str, Any] = params.model_dump(mode="json")
        every["data"]["classes"] = params.data.class_names  # also where a file has them
        values: dict[str, Any] = {}
        for key in self.params:
            value = every
            for part in key.split("."):
                value = value[part]
            values |= {f"{key}.{name}": one for name, one in value.items()} if _is_section(key) else {key: value}
        return {key: value for key, value in values.items() if key not in self.except_for}


def _is_section(key: str) -> bool:
    """Whether a dotted key names a section, and not a param that has one form or another."""
    return key in Params.model_fields and isinstance(Params.model_fields[key].annotation, type(BaseModel))


_FAIL_ON = "verify.fail_on"  # findings that are errors, of every stage but accept

LINKS = {
    "prepare": Link(
        "prepared",
        params=("data", "preprocess", "model.inputs", "model.dimensions", _FAIL_ON),
        except_for=("data.fetch", "data.raw"),
    ),
    "train": Link(
        "checkpoint",
        ("prepare",),
        params=("seed", "data.task", "data.classes", "model", "train", _FAIL_ON),
    ),
    "export": Link("exported", ("prepare", "train"), params=("name", "answer", "export", _FAIL_ON), versions=True),
    "optimize": Link(
        "candidates",
        ("prepare", "train", "export"),
        params=("optimize", _FAIL_ON),
        except_for=("optimize.candidates", "optimize.timeout_s"),
        versions=True,
    ),
    "verify": Link(
        "parity",
        ("prepare", "train", "export", "optimize"),
        params=("answer", "verify", "train.min_score"),
        except_for=("verify.layers", "verify.timeout_s"),
        versions=True,
    ),
    "benchmark": Link(
        "benchmark",
        ("prepare", "train", "optimize", "verify"),
        params=("benchmark", "select", _FAIL_ON),
        except_for=("benchmark.timeout_s",),
        versions=True,
    ),
    "package": Link(inputs=("prepare", "train", "optimize", "verify", "benchmark"), params=("package", _FAIL_ON)),
    "accept": Link(inputs=("prepare", "train", "optimize", "verify", "benchmark"), code=False),
}
