"""`python -m flows.prefect_server PORT`: Prefect's server on loopback, for one run."""

from __future__ import annotations

import sys

from flows import imports


def main() -> None:
    imports.keep_what_they_make()
    import uvicorn

    uvicorn.run("prefect.server.api.server:create_app", factory=True, port=int(sys.argv[1]), log_level="error")


if __name__ == "__main__":
    main()
