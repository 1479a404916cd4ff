"""The pages as a browser has them: the answer is there, nothing is asked from elsewhere, and any name is only text."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from paddleship.pages import charts, comparison_page, image_comparison_page, run_page
from paddleship.pages.charts import Point
from paddleship.pages.comparison import Compared
from paddleship.statistics.estimates import Interval
from tests.made_images import compared
from tests.paddleship.pages.made import reports

EVIL = "<script>alert(1)</script>好的&$x_1$\"'"


class Parts(HTMLParser):
    """The text of a page, its elements, and all addresses in it."""

    def __init__(self, page):
        super().__init__()
        self.text, self.tags, self.addresses = "", set(), []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "data", "action", "srcset")]

    def handle_data(self, data):
        self.text += data


def parts(page):
    read = Parts(page)
    assert len(page.encode()) < 2e6
    assert not read.tags & {"script", "iframe", "object", "link", "form"}
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in read.addresses), read.addresses
    assert not re.search(r"url\((?!#)|@import", page)
    return read


def test_the_page_of_a_run_begins_with_the_answer_and_the_verdict(tmp_path):
    read = parts(run_page.of("reviews", reports(), tmp_path, params={"train.epochs": "6"}))
    text = read.text.replace("\xa0", " ")
    assert text.index("onnxruntime is 7.50× as fast as eager") < text.index("All 6 gates passed") < text.index("Score and latency")
    assert all(part in text for part in ("train.epochs", "the loss is flat", "train.learning_rate", "wrong_answers", "da7a"))


def test_names_and_params_of_users_are_text_and_nothing_else(tmp_path):
    page = run_page.of(EVIL, reports(names=(EVIL, "paddle")), tmp_path, params={EVIL: EVIL}, failure=f"{EVIL} `{EVIL}`")
    assert parts(page).text.count("alert(1)") > 4
    compared = [Compared.of(f"{name} {EVIL}", reports(), {EVIL: name}) for name in "ab"]
    assert "好的" in parts(comparison_page.of(compared)).text


def test_a_page_has_room_for_forty_candidates_and_says_which_pictures_it_leaves_out(tmp_path):
    made = reports(names=[f"candidate-{number}" for number in range(40)])
    for name, size in (("small.png", 1000), ("large.png", 3_000_000)):
        (tmp_path / name).write_bytes(b"x" * size)
    made[3].pictures = ["small.png", "large.png", "missing.png"]
    read = parts(run_page.of("many", made, tmp_path, params={}))
    assert "candidate-39" in read.text
    assert "Left out of this page: large.png, missing.png" in read.text


def test_a_run_that_failed_early_has_a_page_too(tmp_path):
    assert (
        "Failed: train: the loss is NaN"
        in parts(run_page.of("x", reports(until="train"), tmp_path, params={}, failure="train: the loss is NaN")).text
    )
    assert "Nothing was reported" in parts(run_page.of("x", [], tmp_path, params={}, failure="no data")).text


def test_the_page_of_a_comparison_has_the_answer_and_the_params_that_differ():
    page = comparison_page.of(
        [Compared.of("a", reports(accuracy=0.9), {"x": "1"}), Compared.of("b", reports(accuracy=0.7, valid=False), {"x": "2"})]
    )
    text = parts(page).text
    assert text.index("a is better") < text.index("b: the speed is not valid") < text.index("Params that differ")


def test_scores_that_are_equal_but_for_rounding_look_equal():
    points = [Point(str(index), Interval(1, 1, 1), Interval(0.5 + index * 1e-12, 0.5, 0.5 + 1e-12), index == 0) for index in range(2)]
    chart = charts.score_against_latency(points, title="x", score="score")
    assert "0.500" in chart
    assert "1e" not in re.sub(r"<path.*?/>|<[^>]*>", "", chart)
    assert chart == charts.score_against_latency(points, title="x", score="score")


PAGES = {
    "as fast as eager": lambda folder: run_page.of("reviews 好的", reports(), folder, params={"a": "b" * 300}),
    "好的 is better": lambda _folder: image_comparison_page.of(compared(drop=(-0.05, -0.08, -0.02), names=("差", "好的"))),
}


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
@pytest.mark.parametrize("answer", PAGES)
def test_a_browser_without_a_network_shows_the_answer(tmp_path, answer):
    page = tmp_path / "report.html"
    page.write_text(PAGES[answer](tmp_path), encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/browser"]
    alone = [*command, "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", page.as_uri()]
    done = subprocess.run(alone, capture_output=True, encoding="utf-8", timeout=120, check=True)
    assert answer in parts(done.stdout).text
