"""fingerprint: write the installed versions, the machine and the hash of weights to import into files that later stages depend on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from paddleship.config import loading
from paddleship.errors import PaddleshipError
from paddleship.stage.fingerprint import fingerprint


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.fingerprint", description=fingerprint.__doc__)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"), help="params file (default: params.yaml)")
    try:
        fingerprint(loading.load(parser.parse_args().params))
    except PaddleshipError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
