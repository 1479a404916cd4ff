"""The pages as a browser has them: the answer is there, nothing is asked from elsewhere, and any name is only text."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import combinations

import pytest
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.text import Text

from paddleship.config.sections.sweep import Sweep
from paddleship.pages import charts, comparison_page, image_comparison_page, run_page, variants_page
from paddleship.pages.charts import Point
from paddleship.pages.comparison import Compared
from paddleship.plots import labels
from paddleship.reports.finding import Finding
from paddleship.statistics.estimates import Interval
from paddleship.sweep import choice, sweep_page
from paddleship.sweep.variant import Variant
from tests.made_images import compared
from tests.paddleship.pages.made import reports
from tests.paddleship.sweep.helpers import done, failed

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
    assert text.index("onnxruntime is 7.50× as fast as eager") < text.index("All 8 gates passed") < text.index("Score and latency")
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


def test_flipped_rows_the_worst_rows_and_curves_have_a_part_each(tmp_path):
    made = reports()
    changed = [{"row": {"text": EVIL}, "label": "good", "eager": "bad", "candidate": "fine"}]
    worst = {"row": {"text": "worst of all"}, "error": 1.26, "output": "logits", "case": "batch of 22"}
    made[2].facts["examples"] = {"onnxruntime": {"changed": changed, "worst": worst}, "paddle": {"changed": [], "worst": None}}
    sizes = [{"batch_size": size, "throughput_per_s": 1000 * size, "p50_ms": 1} for size in (1, 8)]
    made[3].facts |= {"curves": {"onnxruntime": {"batch_size": sizes}, "eager": {"batch_size": sizes[:1]}}, "versions": {"numpy": "2.3"}}
    made[3].facts["winner_speedup"] = {"paddle": {"ratio": 1.84, "low": 1.79, "high": 1.9}}
    text = parts(run_page.of("x", made, tmp_path, params={})).text
    assert all(part in text for part in ("Decisions of onnxruntime that are not eager's", EVIL, "fine", "worst of all", "batch of 22"))
    assert "Decisions of paddle" not in text
    assert "1.84× (1.79× to 1.90×)" in text
    assert "Larger batches" in text
    assert "Longer inputs" not in text.replace("Larger batches, longer inputs, more processes", "")
    assert "numpy 2.3" in text


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
    assert (
        text.index("It cannot be told which is better: a has the best score")
        < text.index("b: the speed is not valid")
        < text.index("Params that differ")
    )
    assert "validation score" in text, "which the list of runs calls so too"


def test_scores_that_are_equal_but_for_rounding_look_equal():
    points = [Point(str(index), Interval(1, 1, 1), Interval(0.5 + index * 1e-12, 0.5, 0.5 + 1e-12), index == 0) for index in range(2)]
    chart = charts.score_against_latency(points, title="x", score="score")
    assert "0.500" in chart
    assert "1e" not in re.sub(r"<path.*?/>|<[^>]*>", "", chart)
    assert chart == charts.score_against_latency(points, title="x", score="score")


def test_labels_of_points_that_are_close_together_do_not_cover_each_other():
    points = [Point(f"variant {n}", Interval(6 + n / 10, 5, 7), Interval(0.9, 0.8, 1), n == 0, valid=False) for n in range(5)]
    chart = charts.score_against_latency(points, title="x", score="score")
    width, height = 36, 8  # of such a label, in points
    texts = re.findall(r'<text ([^>]*)x="([0-9.]+)" y="([0-9.]+)"[^>]*>variant', chart)
    corners = [(float(x) - width * ("text-anchor: end" in style), float(y)) for style, x, y in texts]
    assert len(corners) == 5
    assert all(abs(x - left) > width or abs(y - top) > height for n, (x, y) in enumerate(corners) for left, top in corners[:n])


def test_lines_from_labels_to_points_that_are_close_together_do_not_cross():
    axes = Figure(layout="constrained").subplots()
    places = [6.47, 6.53, 6.56]
    axes.errorbar(places, [0.97] * 3, xerr=1, yerr=[[0.12] * 3, [0.03] * 3])
    texts = [axes.annotate(f"variant {x} (width)", (x, 0.97), (0, 0), textcoords="offset points") for x in places]
    labels.place(axes, texts)
    boxes = [Text.get_window_extent(text) for text in texts]
    centres = [((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2) for box in boxes]
    lines = [Path([axes.transData.transform(text.xy), centre]) for text, centre in zip(texts, centres, strict=True)]
    assert not [pair for pair in combinations(lines, 2) if pair[0].intersects_path(pair[1])]


LONG = ["学习率等于千分之三" * 5, "learning_rate_0.003_batch_size_64_width_16", "words " * 7]


def test_names_of_forty_characters_fit_into_a_chart():
    """Warnings, such as the one of a layout without room for the axes, are errors in tests."""
    points = [Point(name, Interval(1 + n / 9, 1, 2), Interval(0.9, 0.8, 1), n == 0) for n, name in enumerate(LONG)]
    chart = charts.score_against_latency(points, title="x", score="score")
    lines = {name: [(1, 2), (8, 9)] for name in LONG * 2}
    for drawn in (chart, charts.lines(lines, chosen=LONG[0], title="x", x="rows", y="rows per second")):
        width, height = map(float, re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', drawn).groups())
        texts = re.findall(r"<text ([^>]*)>([^<]+)</text>", drawn)
        assert all(len(text) <= 28 for _, text in texts if "学" in text or "learning" in text)
        corners = [re.search(r"translate\(([0-9.-]+) ([0-9.-]+)\)|x=\"([0-9.-]+)\" y=\"([0-9.-]+)\"", found)[0] for found, _ in texts]
        assert all(0 <= x <= width and 0 <= y <= height for x, y in (map(float, re.findall(r"[0-9.-]+", one)) for one in corners))


@pytest.mark.parametrize(("ends", "above"), [((None, 1), False), ((0, 1), False), ((None, None), True)])
def test_the_axis_of_a_score_ends_where_its_range_does(ends, above):
    points = [Point(str(n), Interval(1 + n, 1, 3), Interval(1 - 0.3 * n, 0.6, 1.2), n == 0) for n in range(2)]
    chart = charts.score_against_latency(points, title="x", score="score", ends=ends)
    shown = [float(text) for text in re.findall(r">\s*([0-9]\.[0-9]+)\s*<", chart)]
    assert 1.0 in shown
    assert any(one > 1 for one in shown) == above


def test_the_chart_of_a_comparison_has_the_range_of_its_score():
    page = comparison_page.of([Compared.of(name, reports(accuracy=one), {}) for name, one in (("a", 1.0), ("b", 0.9))])
    assert ">1.00<" in page
    assert not re.search(r">1\.0[1-9]<", page)


def pages(folder):
    """One page of each sort, by what is special about it, with the beginning of its answer and of its verdict."""
    chinese = reports(names=("红酒", "白酒"))
    chinese[2].facts["examples"] = {
        "红酒": {"changed": [{"row": {"文本": "好的"}, "label": "好", "eager": "好", "candidate": "坏"}], "worst": None}
    }
    many = reports(names=[f"candidate-{number}" for number in range(40)])
    runs = [Compared.of("a", reports(accuracy=0.9), {}), Compared.of("b", reports(accuracy=0.7, valid=False), {})]
    return {
        "Chinese": (run_page.of("评论", chinese, folder, params={"类": "好"}), "红酒 is 7.50× as fast as eager", "All 8 gates passed"),
        "40 candidates": (run_page.of("many", many, folder, params={}), "candidate-0 is 7.50×", "All 8 gates passed"),
        "failed": (
            run_page.of("bad", reports(until="train"), folder, params={}, failure="train: NaN"),
            "No candidate was measured",
            "Failed: train: NaN",
        ),
        "disturbed": (run_page.of("busy", reports(valid=False), folder, params={}), "cannot be told", "the speed is not valid"),
        "images": (
            image_comparison_page.of(compared(drop=(-0.05, -0.08, -0.02), names=("差", "好的"))),
            "好的 is better",
            "Both answered",
        ),
        "comparison": (comparison_page.of(runs), "a has the best score", "Not all of it can be trusted"),
    }


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
@pytest.mark.parametrize("name", ["Chinese", "40 candidates", "failed", "disturbed", "comparison", "images"])
def test_a_browser_without_a_network_shows_the_answer_and_the_verdict(tmp_path, name):
    content, answer, verdict = pages(tmp_path)[name]
    page = tmp_path / "page.html"
    page.write_text(content, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/browser"]
    alone = [*command, "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", page.as_uri()]
    done = subprocess.run(alone, capture_output=True, encoding="utf-8", timeout=300, check=True)
    shown = parts(done.stdout).text.replace("\xa0", " ")
    assert 0 <= shown.index(answer) < shown.index(verdict)


def test_what_is_not_valid_has_the_type_of_the_answer(tmp_path):
    size = r"\.%s {[^}]*font-size: ([^;]+);"
    content = pages(tmp_path)["comparison"][0]
    assert re.search(r'<p class="trust no">Not all of it can be trusted\.<br>b: the speed is not valid[^<]*</p>', content)
    assert re.search(size % "trust", content)[1] == re.search(size % "answer", content)[1]


def warned(run, *messages):
    made = reports(accuracy=0.9 if run == "a" else 0.7)
    made[1].findings = []
    made[3].findings = [Finding("imprecise", "warning", message, "use a machine with dedicated cores") for message in messages]
    made[3].facts["measured_on"] = "here"
    return Compared.of(run, made, {})


def test_a_warning_of_a_run_is_on_the_first_screen_of_its_page_in_amber(tmp_path):
    made = reports()
    for report in made:
        report.findings = []
    assert re.search(r'<p class="trust">All \d+ gates', run_page.of("r", made, tmp_path, params={}))
    made[3].findings = [Finding("imprecise", "warning", "steal was 30%")]
    page = run_page.of("r", made, tmp_path, params={})
    (shown,) = re.findall(r'<p class="trust warned">(.*)</p>', page)
    assert shown.endswith("with 1 warning.<br>benchmark: steal was 30%")
    made[3].facts["benchmark_valid"] = False
    (below,) = re.findall(r'<p class="trust no">.*</p>\n<p class="trust warned">(.*)</p>', run_page.of("r", made, tmp_path, params={}))
    assert below.endswith("<br>benchmark: steal was 30%")
    failed = run_page.of("r", made, tmp_path, params={}, failure="train: accuracy is 0.7")
    assert "trust warned" not in failed


def test_a_warning_of_a_run_is_on_the_first_screen_of_a_comparison_in_amber():
    green = "Every run passed all its gates, on the same rows and the same machine."
    assert f'<p class="trust">{green}</p>' in comparison_page.of([warned("a"), warned("b")])
    page = comparison_page.of([warned("a"), warned("b", "steal was 30%")])
    assert green not in page
    (shown,) = re.findall(r'<p class="trust warned">(.*)</p>', page)
    assert shown.endswith("but with warnings.<br>imprecise: b: steal was 30%")
    assert page.index(shown) < page.index("<h2>")
    assert ".trust.warned { border-color: var(--warn)" in page
    assert "use a machine with dedicated cores" in parts(page).text


def test_a_comparison_claims_the_same_rows_and_machine_only_where_they_are_known():
    unknown = [warned("a"), warned("b")]
    for run in unknown:
        object.__setattr__(run, "figures", run.figures.model_copy(update={"measured_on": ""}))
    assert '<p class="trust">Every run passed all its gates, on the same rows.</p>' in comparison_page.of(unknown)
    for run in unknown:
        object.__setattr__(run, "figures", run.figures.model_copy(update={"data_sha256": ""}))
    assert '<p class="trust">Every run passed all its gates.</p>' in comparison_page.of(unknown)


def test_an_error_on_the_page_of_a_comparison_is_called_one():
    bad = reports(accuracy=0.7)
    bad[1].findings = [Finding("bad-model", "error", "x")]
    bad[3].facts["measured_on"] = "here"
    page = comparison_page.of([warned("a"), Compared.of("b", bad, {})])
    assert "passed, with 1 error</td>" in page
    assert "on the same rows and the same machine, but with errors.<br>" in page


def test_a_small_figure_is_not_rounded_to_nothing_on_a_page(tmp_path):
    made = reports(flips=0.00003)
    assert "0.003%</td>" in run_page.of("x", made, tmp_path, params={})
    page = comparison_page.of([Compared.of("a", reports(accuracy=0.99999), {}), Compared.of("b", reports(accuracy=2e-05), {})])
    assert ">0.99999<" in page
    assert ">2e-05<" in page
    assert ">0.0000<" not in page


def test_the_range_of_a_latency_in_a_comparison_has_a_name_of_its_own(tmp_path):
    page = comparison_page.of([Compared.of(name, reports(accuracy=one), {}) for name, one in (("a", 0.9), ("b", 0.8))])
    assert page.count("comparison range") == 2, "in the head and on the axis"
    assert "in ms (left is faster), 95% interval" in run_page.of("x", reports(), tmp_path, params={})


def test_a_run_that_cannot_be_chosen_is_hollow_and_grey_in_a_chart():
    runs = [Compared.of("a", reports(wrong=1), {}), Compared.of("b", reports(accuracy=0.7), {})]
    page = comparison_page.of(runs)
    assert "hollow: cannot be chosen" in page
    assert '<td class="missed">failed at accept</td>' in page
    assert "hollow" not in comparison_page.of(runs[1:] * 2)
    drawn = charts.score_against_latency(
        [Point("a", Interval(1, 1, 2), Interval(0.9, 0.8, 1), False, usable=False)], title="x", score="score"
    )
    assert "fill: #ffffff; stroke: #" in drawn


@pytest.mark.parametrize(
    ("score", "params", "why"),
    [
        ("r2", {"data.task": "classification"}, "the scores of the runs are of different metrics"),
        ("accuracy", {"data.task": "regression"}, "the runs answer different questions: data.task differs"),
    ],
)
def test_scores_that_are_no_answers_to_one_question_share_no_chart(score, params, why):
    other = reports()
    other[1].metrics = {f"validation_{score}": 0.5, f"test_{score}": 0.5}
    page = comparison_page.of([Compared.of("a", reports(), {"data.task": "classification"}), Compared.of("b", other, params)])
    assert ("There is no chart, because" in page, why in page, "<svg" in page) == (True, True, False)


def test_a_variant_of_a_sweep_shows_its_warnings_on_the_first_screen():
    finding = Finding("below-linear", "warning", "a linear model has 0.95", "train longer")
    one = done(1).model_copy(update={"ended": done(1).ended.model_copy(update={"findings": (finding,)})})
    variants = [Variant.model_validate_json(one.model_dump_json()), done(2, p50=5.0)]
    page = variants_page.of("m-1", variants, choice.choose({one.number: one.figures for one in variants}, Sweep()))
    (shown,) = re.findall(r'<p class="trust warned">(.*)</p>', page)
    assert shown.endswith("below-linear: variant 1 (epochs=1): a linear model has 0.95")
    assert "Warning: below-linear: variant 1: a linear model has 0.95" in sweep_page.warnings(variants)


def test_the_page_of_a_sweep_begins_with_the_chosen_variant_and_marks_it():
    variants = [done(1), done(2, p50=0.5), failed(3), done(4, p50=2.0, valid=False), done(5, p50=3.0)]
    chosen = choice.choose({one.number: one.figures for one in variants if one.figures}, Sweep())
    page = variants_page.of("m-1", variants, chosen)
    text = parts(page).text.replace("\xa0", " ")
    assert text.index("Variant 2 (epochs=2) is chosen, with validation accuracy 0.9000") < text.index("variant 3 (epochs=3): GateFailed")
    assert re.findall(r'class="chosen"><td>(\d)', page) == ["2"]
    assert "train.epochs" in text
    none = choice.choose({}, Sweep(max_p50_ms=0.1))
    assert (
        "No variant can be chosen: no variant is done: see why each of them ended" in parts(variants_page.of("m-1", [failed(1)], none)).text
    )
