"""Python imports this first where its folder is on PYTHONPATH: notes which modules of ours a stage and its children import."""

import os
import sys


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "import" and str(arguments[0]).startswith(("paddleship.", "tasks.")):
        with open(_FILE, "a", encoding="utf-8") as file:  # noqa: PTH123 - pathlib would be imported for every process
            file.write(f"{arguments[0]}\n")


for word in sys.orig_argv:
    if word.startswith("tasks."):
        os.environ["RECORDED_STAGE"] = word.removeprefix("tasks.")  # its children inherit it
if "RECORDED_STAGE" in os.environ:
    _FILE = os.path.join(os.environ["RECORDED_TO"], os.environ["RECORDED_STAGE"])  # noqa: PTH118
    _note("import", (f"tasks.{os.environ['RECORDED_STAGE']}",))
    sys.addaudithook(_note)
