"""What the image of a candidate is built from: the Dockerfile, and all files that it copies onto the image of the runtime."""

from __future__ import annotations

import shutil
from pathlib import Path

from paddleship.custody import candidates, sources
from paddleship.image import layout, requirements, sbom, user_packages
from paddleship.shipped.computing.candidate import FILE, Candidate
from paddleship.shipped.serving.settings import Settings


def lay_out(context: Path, folder: Path, candidate: Candidate, settings: Settings, *, bill: str) -> None:
    """Fill the build context: Dockerfile, library and model. Equal inputs give equal bytes and times.

    `folder` holds the candidate, `settings` are for its server, and `bill` is the bill of materials of the runtime's image. Raises
    CandidateError if the candidate changed.
    """
    library, root = sources.LIBRARY, context / "rootfs"
    for name in sources.SHIPPED:
        target = root / "app" / "paddleship" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (library / name).is_dir():
            shutil.copytree(library / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(library / name, target)
    user_packages.lay_out(candidate, root / "app")
    for name in (FILE, *candidate.files):
        (root / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / name, root / "model" / name)
    settings.write(root / "model")
    ours = {"paddleship computing": sources.library_sha256(), "paddleship serving": sources.server_sha256()}
    (root / "model" / sbom.FILE).write_text(sbom.of_image(bill, candidate, shipped=ours), encoding="utf-8")
    copied = Candidate.load(root / "model")
    candidates.require(f"the copy of {candidate.name!r}", copied.digest, candidate.digest, by="benchmark", again="package")
    layout.compile_modules(root, "app")
    layout.finish(context, root, requirements.dockerfile())
