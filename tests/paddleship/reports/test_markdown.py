"""Texts in Markdown: none of them is HTML or another cell."""

import pytest

from paddleship.reports import markdown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a <b> & <script>alert(1)</script>", "a &lt;b> &amp; &lt;script>alert(1)&lt;/script>"),
        ("run `a < b && c`, if x < y", "run `a < b && c`, if x &lt; y"),
        ("one ` <b>", "one ` &lt;b>"),
        ("a -> b", "a -> b"),
    ],
)
def test_only_code_keeps_its_characters(value, shown):
    assert markdown.text(value) == shown


def test_a_cell_is_one_line_and_one_cell():
    assert markdown.cell("a|b `c|d`\n<i>") == r"a\|b `c\|d` &lt;i>"
