"""Which of two images is better: for a clear winner, a trade, a tie, and rows that cannot tell; and the page."""

import base64
import io

import pytest
from PIL import Image

from paddleship.pages import image_comparison, image_comparison_page
from tests.made_images import FASTER, SLOWER, compared
from tests.paddleship.pages.test_pages import EVIL, parts

BETTER, WORSE, SIMILAR = (-0.05, -0.08, -0.02), (0.05, 0.02, 0.08), (0.01, -0.02, 0.04)


def answer(**values):
    return image_comparison.answer(compared(**values)).replace("\xa0", " ")


def test_the_better_image_is_named_with_its_gain_its_interval_and_what_it_costs():
    assert answer(drop=BETTER) == (
        "b is better: accuracy 0.9500 against 0.9000 (+0.0500, 95% interval +0.0200 to +0.0800); no difference in latency shows (0.980× "
        "to 1.02×; one image against itself: up to 1.01×). It has a size of 200 MB (against 150 MB), uses 50.0 MB (both) of memory, and "
        "starts in 800 ms (both)."
    )


def test_the_first_image_is_better_by_what_the_second_loses():
    said = answer(drop=WORSE, speedup=SLOWER)
    assert said.startswith(
        "a is better: accuracy 0.9000 against 0.8500 (+0.0500, 95% interval +0.0200 to +0.0800) and 1.00 ms against 2.00 ms for a request "
        "(2.00× as fast, 95% interval 1.82× to 2.22×). It has a size of 150 MB (against 200 MB)"
    )


def test_a_trade_names_what_each_image_is_better_in():
    said = answer(drop=WORSE, speedup=FASTER)
    assert said.startswith("Neither is better in everything: a has accuracy 0.9000 against 0.8500 (+0.0500")
    assert "; b has 667 µs against 1.00 ms for a request (1.50× as fast, 95% interval 1.40× to 1.60×). b has a size" in said


def test_a_tie_is_not_decided_and_says_what_would_tell():
    assert answer(drop=(-0.01, -0.04, 0.02)).startswith("It cannot be told which is better")
    said = answer(drop=SIMILAR)
    assert said.startswith(
        "It cannot be told which is better: no difference in accuracy shows (0.9000 and 0.8900, -0.0100, 95% interval -0.0400 to +0.0200); "
        "no difference in latency shows (0.980× to 1.02×"
    )
    assert "More rows with labels (`--rows`), or a longer measurement on an idle machine (`--seconds`), would tell" in said
    assert "both have the accuracy 0.9000" in answer()


def test_rows_without_labels_can_show_the_faster_image_but_no_better_one():
    said = answer(labelled=False, speedup=FASTER)
    assert answer(drop=SIMILAR, speedup=SLOWER).startswith("a is faster: 1.00 ms against 2.00 ms")
    assert said.startswith("b is faster: 667 µs against 1.00 ms")
    assert "which one answers right more often is not known" in said
    assert "Rows with labels (`--rows`)" in answer(labelled=False)
    assert image_comparison.doubts(compared(labelled=False, unknown=["a"])) == [
        "the rows have no labels, so nothing says which image answers right"
    ]


@pytest.mark.parametrize(
    ("values", "doubt"),
    [
        ({"unknown": ["a", "b"]}, "whether a or b learned from these rows is not known, and then its score is too high"),
        ({"noise": 1.3}, "the machine was not idle: one image differs from itself by up to 1.30×, which hides what is less"),
        ({"failure": "champion: 500"}, "latency was not measured: champion: 500"),
        ({"drop": None}, "the scores are unknown, because labels and outputs do not fit together"),
    ],
)
def test_what_cannot_be_trusted_is_said(values, doubt):
    assert image_comparison.doubts(compared()) == []
    assert image_comparison.doubts(compared(**values)) == [doubt]
    assert answer(**values)


def test_scores_that_differ_a_little_do_not_look_equal():
    assert "accuracy 0.9 against 0.89999 (+1e-05, 95% interval +5e-06 to +2e-05)" in answer(drop=(1e-5, 5e-6, 2e-5))


def test_the_page_begins_with_the_answer_and_shows_rows_that_are_decided_differently():
    row = {"number": 17, "row": {"text": "<b>坏</b>"}, "label": "差", "champion": "差", "challenger": "好的"}
    made = compared(drop=BETTER, examples=[row], packaged=True, unknown=["a"])
    text = parts(image_comparison_page.of(made)).text
    order = [
        image_comparison.answer(made),
        "was built here",
        "learned from these rows",
        "1.00× as fast",
        "Score and latency",
        "<b>坏</b>",
        "好的",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert "They decide differently in 3 of 100 rows (3.0%, 95% interval 0.5% to 9.0%)" in text


def test_names_are_text_and_nothing_else():
    example = {"number": 1, "row": {EVIL: EVIL}, "label": EVIL, "champion": EVIL, "challenger": "x"}
    made = compared(names=(EVIL, "b"), columns={EVIL: [EVIL] * 100}, examples=[example], unknown=[EVIL])
    assert parts(image_comparison_page.of(made)).text.count("alert(1)") > 4


def test_pictures_among_the_inputs_are_shown_and_other_bytes_are_not(tmp_path):
    Image.new("RGB", (500, 250), "red").save(tmp_path / "red.png")
    files = [(tmp_path / "red.png").read_bytes(), b"no picture"]
    examples = [
        {"number": number, "row": {"photo": f"{len(file)} bytes"}, "label": "a", "champion": "a", "challenger": "b"}
        for number, file in enumerate(files)
    ]
    page = image_comparison_page.of(compared(columns={"photo": files}, examples=examples))
    (address,) = parts(page).addresses
    assert Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).size == (96, 48)
    assert "10 bytes" in parts(page).text


def test_a_page_without_scores_or_latency_has_no_chart():
    assert "Score and latency" not in image_comparison_page.of(compared(labelled=False))
    assert "Score and latency" not in image_comparison_page.of(compared(failure="champion: 500"))
