"""The commands of a user whose locale is not UTF-8, as it is where Python's UTF-8 mode is off: GBK and Latin-1."""

import os
import re
import shutil
import subprocess

import pytest

from tests.flows.helpers import PROGRAM, git

LOCALES = {"zh_CN.gbk": ("zh_CN", "GBK"), "en_US.iso88591": ("en_US", "ISO-8859-1")}

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.spawned]


@pytest.fixture(params=LOCALES)
def environment(request, tmp_path):
    """With a locale that is compiled for this test."""
    if not shutil.which("localedef"):
        pytest.skip("needs localedef: install libc-bin")
    source, charset = LOCALES[request.param]
    command = ["localedef", "--no-archive", "-c", "-i", source, "-f", charset, str(tmp_path / request.param)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not (tmp_path / request.param).exists():
        pytest.skip(f"needs the sources of locales: apt-get install locales ({done.stderr.strip()[-200:]})")
    ours = ("PREFECT", "MLFLOW", "LC_", "LANG", "PYTHONIOENCODING", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    set_here = {"LOCPATH": str(tmp_path), "LC_ALL": request.param, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "200"}
    return kept | set_here, charset


@pytest.mark.timeout(1200)
def test_a_run_to_benchmark_and_what_shows_it_work_in_another_encoding_than_utf_8(environment, linear_checkout_of):
    settings, charset = environment
    checkout = linear_checkout_of("locale", optimize={"candidates": ["paddle", "onnxruntime"]})
    (checkout / "params.yaml").write_text("# 商品评论, déjà vu\n" + (checkout / "params.yaml").read_text("utf-8"), "utf-8")
    git(checkout, "commit", "-qam", "商品评论, déjà vu")

    def run(*words):
        return subprocess.run([PROGRAM, *words], cwd=checkout, env=settings, capture_output=True, check=False)

    for words in (
        ("run", "--until", "benchmark"),
        ("runs", "list"),
        ("doctor", "--seconds", "400"),
        ("ci", "--until", "prepare", "--force"),
    ):
        done = run(*words)
        assert done.returncode == 0, (words, done.stdout.decode(charset, "replace")[-2000:], done.stderr.decode(charset, "replace")[-2000:])
        done.stdout.decode(charset)
    newest = re.split(" {2,}", run("runs", "list").stdout.decode(charset).splitlines()[1])[0]
    shown = run("runs", "show", newest)
    assert shown.returncode == 0, shown.stderr.decode(charset)
    assert "商品评论, déjà vu" in (checkout / "params.yaml").read_text("utf-8")
