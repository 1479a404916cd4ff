"""Each character of a normalised text comes from a known part of the text as it was sent."""

import itertools
import unicodedata

import numpy as np
import pytest

from paddleship.shipped.computing.preprocess import text as text_module
from paddleship.shipped.computing.preprocess.text import normalise, sources

FORMS = ["NFC", "NFD", "NFKC", "NFKD", None]
ALPHABET = [
    *"aeo 好\t\n\u3000，",
    *("\u0301", "\u0323", "\u0345", "\u0338"),  # marks that are composed and put in order
    *("é", "ﬁ", "Ａ", "①", "㎜", "ﷺ", "\u0344", "Å", "\u2126"),  # one character that becomes another, or several
    *("\u1100", "\u1161", "\u11a8", "각"),  # letters of Hangul, which are composed without being marks
    *("カ", "ｶ", "\uff9e", "\u3099"),  # a half-width mark that is no mark before normalisation
    *("\u0bc6", "\u0bbe", "\u0dd9", "\u0dcf", "\u0dca"),  # vowels of Tamil and Sinhala, which are composed
    *("👩", "\u200d", "🏽"),
]


@pytest.mark.parametrize("form", FORMS)
def test_every_character_is_in_the_normal_form_of_its_part(form):
    draw = np.random.default_rng(0)
    for _ in range(3000):
        text = "".join(draw.choice(ALPHABET, draw.integers(13)))
        found = sources(text, form, 99)
        normal = normalise(text, form)
        assert len(found) == len(normal)
        for character, (start, end) in zip(normal, found, strict=True):
            part = unicodedata.normalize(form, text[start:end]) if form else text[start:end]
            assert character in part or (character == " " and any(one.isspace() for one in part)), (text, start, end)
        for one, two in itertools.pairwise(found):
            assert one[1] <= two[0] or one[1] == two[1], "parts are apart, or of characters that are composed together"


@pytest.mark.parametrize("form", FORMS[:-1])
def test_a_text_gets_the_normal_form_that_unicode_gives_it(form):
    draw = np.random.default_rng(1)
    for width in map(chr, range(0xFF00, 0xFFF0)):
        text = "".join([*draw.choice(ALPHABET, 6), width, *draw.choice(ALPHABET, 6)])
        assert normalise(text, form) == " ".join(unicodedata.normalize(form, text).split()), ascii(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("xe\u0301\u0323y", [(0, 1), (1, 4), (1, 4), (4, 5)]),  # ẹ́ is two characters in NFKC
        ("x\u1100\u1161\u11a8y", [(0, 1), (1, 4), (4, 5)]),
        ("xｶ\uff9ey", [(0, 1), (1, 3), (3, 4)]),
        ("x\u2126\uff9e\u0301y", [(0, 1), (1, 4), (1, 4), (4, 5)]),  # Ώ is composed over the mark between
        ("x\u0bc6\u0bbey", [(0, 1), (1, 3), (3, 4)]),
    ],
    ids=ascii,
)
def test_what_is_composed_has_one_part_and_its_neighbours_have_their_own(text, parts):
    assert sources(text, "NFKC", 99) == parts


@pytest.mark.parametrize("form", FORMS)
def test_the_parts_are_the_shortest_ones(form):
    draw = np.random.default_rng(1)
    short = [letter for letter in ALPHABET if letter.isascii() or letter in "好，Ａ①ﬁ"]
    for _ in range(300):
        text = "".join(draw.choice(short, 12))
        for start, end in sources(text, form, 99):
            assert end - start == 1 or text[start:end].isspace()


def test_only_as_many_are_found_as_the_model_reads():
    assert sources(" ab\u0301c", "NFC", 2) == [(1, 2), (2, 4)]
    assert sources("\ufb01\ufb01", "NFKC", 3) == [(0, 1), (0, 1), (1, 2)]
    assert sources(" \n", "NFKC", 3) == []


@pytest.mark.parametrize("repeated", ["ｶ\uff9e", "Ａ", "e\u0301", "a  "])
def test_no_more_of_a_long_text_is_looked_at_than_the_model_reads(repeated, monkeypatch):
    looked = []
    monkeypatch.setattr(text_module, "_starts", lambda *asked, real=text_module._starts: looked.append(asked) or real(*asked))
    assert len(sources(f" {repeated * 5000}", "NFKC", 64)) == 64
    assert len(looked) < 64 * len(repeated) + 10
