"""The chain of custody: each stage accepts only outs that were made from the present data, code, params and libraries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.custody import seals, sources
from paddleship.custody.differing import show_both
from paddleship.custody.links import LINKS
from paddleship.custody.seals import Seal
from paddleship.errors import BadInput


@dataclass(frozen=True)
class Begun:
    """A stage that has begun: the digests and the seals of the outs that it reads, by stage, and its own seal as far as it is known."""

    inputs: Mapping[str, str]
    seals: Mapping[str, Seal]
    _seal: Seal

    @property
    def params(self) -> Mapping[str, Any]:
        """The values by dotted key that its own out depends on."""
        return self._seal.params

    @property
    def key(self) -> str:
        """Hash of all that the stage's own out depends on."""
        return self._seal.digest

    def seal(self, folder: Path) -> None:
        """Seal the stage's out, which lies in `folder`. The code is as it was when the stage began."""
        replace(self._seal, files=seals.contents(folder)).write(folder)


def begin(params: Params, stage: str, *, versions: Mapping[str, str] | None = None) -> Begun:
    """Begin a stage. Raises BadInput unless each out that it reads is as its stage wrote it, from what is there now.

    What is there now are the outs of earlier stages, the params, and where they matter the user's code and the `versions` of the installed
    libraries. An out that this stage does not read need not be there; the outs that it does read must agree on it.
    """
    link = LINKS[stage]
    code = sources.code_sha256(params.code) if link.code else ""
    read = {before: seals.read(LINKS[before].folder(params), before) for before in link.inputs}
    _require_one_chain(read, params)
    for before, seal in read.items():
        compare(before, "", seal.params, LINKS[before].values(params))
        if link.code and LINKS[before].code:
            compare(before, "the hash of ", {"the code in code.watch": seal.code_sha256}, {"the code in code.watch": code})
        if versions is not None and LINKS[before].versions:
            compare(before, "the version of ", seal.versions, versions)
    inputs = {before: seal.digest for before, seal in read.items()}
    return Begun(inputs, read, Seal(stage, inputs, link.values(params), code, dict(versions or {}), {}))


def _require_one_chain(read: Mapping[str, Seal], params: Params) -> None:
    """Raise BadInput if an out does not name all that its stage reads, or disagrees about it with what is there now or with another out."""
    digests = {stage: (seal.digest, stage) for stage, seal in read.items()}
    for stage, seal in read.items():
        if (named := set(seal.inputs)) != (needed := set(LINKS[stage].inputs)):
            names, reads = (", ".join(sorted(one)) or "nothing" for one in (named, needed))
            file = LINKS[stage].folder(params) / seals.FILE
            raise BadInput(f"{file} names {names} as its inputs, but {stage} reads {reads}: run `paddleship run --again {stage}`")
        for before, digest in seal.inputs.items():
            known, source = digests.setdefault(before, (digest, stage))
            if digest != known:
                folder, other = (str(LINKS[name].folder(params)) for name in (stage, before))
                state = "is there now" if source == before else f"{str(LINKS[source].folder(params))!r} was made from"
                raise BadInput(
                    f"{folder!r} was made from another {other!r} than {state}: {before} ran again, or a file was replaced; "
                    f"run `paddleship run --again {stage}`"
                )


def compare(stage: str, what: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise BadInput unless what a stage ran with and what is there now are the same values under the same keys."""
    for key in sorted(then.keys() | now.keys()):
        if (key in then, then.get(key)) != (key in now, now.get(key)):
            old, new = show_both(then.get(key, "not recorded"), now.get(key, "not there"))
            raise BadInput(f"{what}{key} is {new}, but {stage} ran with {old}: run `paddleship run --again {stage}`, or restore it")
