"""Near repeats: exactly the pairs that a comparison of all with all finds, for texts and for numbers, and no chance."""

import time

import numpy as np
import pytest

from paddleship.data import near_repeats

WORDS = [
    "screen",
    "bright",
    "battery",
    "lasts",
    "day",
    "but",
    "fan",
    "makes",
    "some",
    "noise",
    "under",
    "load",
    "so",
    "I",
    "keep",
    "it",
    "on",
]


def texts(count, seed):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(3, 30))) for _ in range(count)]


def jaccard(one, other):
    first, second = ({text[start : start + 3] for start in range(len(text) - 2)} for text in map(letters, (one, other)))
    return len(first & second) / len(first | second)


def letters(text):
    return "".join(filter(str.isalnum, text.lower())).ljust(3, "\0")


def test_exactly_the_texts_are_found_that_a_comparison_of_all_with_all_finds():
    train, held = texts(400, 1), texts(150, 2)
    held += [f"{train[index][:-3]}!" for index in range(0, 60, 2)] + ["ok", "OK."]
    train += ["ok!"]
    found = near_repeats.find({"text": train}, {"text": held})
    near = {row for row, text in enumerate(held) if any(jaccard(text, other) >= near_repeats.SIMILARITY for other in train)}
    assert set(found.pairs) == near
    assert len(near) > 20
    assert all(jaccard(held[one], train[other]) >= near_repeats.SIMILARITY for one, other in found.pairs.items())
    assert found.compared == (401, 182)


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("Works as described, would buy again.", "works as described - would buy again", True),
        ("Ｗｏｒｋｓ　as described", "Works as described", True),
        ("质量很好，非常喜欢", "质量很好。非常喜欢！", True),
        ("good", "bad", False),
        ("it works", "it works not at all as it was described to me", False),
        ("!?!", "?!;", False),
        ("!?;", "!?;\n", True),
    ],
)
def test_case_width_spaces_and_marks_do_not_count_and_other_words_do(one, other, near):
    assert bool(near_repeats.find({"text": [other]}, {"text": [one]}).pairs) == near


def test_all_columns_of_a_row_must_be_near():
    train = {"title": ["a fine machine", "another"], "text": ["it does all that I want", "nothing"], "stars": [5, 1]}
    same, other = ["a fine machine!"], ["it does all that I want."]
    assert near_repeats.find(train, {"title": same, "text": other, "stars": [5]}).pairs == {0: 0}
    assert near_repeats.find(train, {"title": same, "text": other, "stars": [4]}).pairs == {}
    assert near_repeats.find(train, {"title": same, "text": ["it cannot do what the others can"], "stars": [5]}).pairs == {}


def rows(count, width=8, seed=0):
    return np.random.default_rng(seed).normal(size=(count, width)) * np.logspace(-3, 3, width)


def test_numbers_that_are_equal_after_rounding_are_near_whatever_their_scale():
    train = rows(500)
    held = np.concatenate([train[:40] * (1 + 1e-7), train[40:80] + 0.5 * train.std(0), rows(100, seed=1)])
    assert set(near_repeats.find({"x": list(train)}, {"x": list(held)}).pairs) == set(range(40))


def test_rows_of_several_shapes_are_near_only_to_rows_of_their_own():
    train = [row[: 3 + index % 5] for index, row in enumerate(rows(300, seed=2) / np.logspace(-3, 3, 8))]
    held = [train[7] + 1e-7, train[8] + 1e-7, train[9][:-1]]
    assert near_repeats.find({"x": train}, {"x": held}).pairs == {0: 7, 1: 8}


def test_whole_numbers_must_be_equal():
    train = np.random.default_rng(0).integers(0, 50_000, (300, 12))
    held = np.stack([train[3], train[4] + 1])
    assert near_repeats.find({"ids": list(train)}, {"ids": list(held)}).pairs == {0: 3}


@pytest.mark.parametrize("train", [rows(500, width=1), np.round(rows(500, width=3) / np.logspace(-3, 3, 3)), np.ones((500, 20))])
def test_rows_that_are_equal_by_chance_are_not_counted_and_that_is_said(train):
    found = near_repeats.find({"x": list(train)}, {"x": list(train[:50])})
    assert found.pairs == {}
    assert "few different" in found.why
    assert found.findings(0.0) == []


def test_rows_of_many_numbers_are_compared_in_all_of_them():
    train = np.random.default_rng(0).normal(size=(50, 10_000))
    changed = train[1].copy()
    changed[5001:5003] += 1
    assert near_repeats.find({"x": list(train)}, {"x": [train[0] + 1e-8, changed]}).pairs == {0: 0}


def test_above_the_share_it_is_a_warning_and_below_a_note():
    train = texts(50, 3)
    found = near_repeats.find({"text": train}, {"text": [*train[:5], *(f"{index} quite unlike all else {index}" for index in range(15))]})
    assert len(found.pairs) == 5
    assert len(found.examples) == 3
    assert [found.findings(most)[0].severity for most in (0.2, 0.3)] == ["warning", "note"]
    assert "5 of 20 held-out rows (25.0%) nearly repeat a training row" in found.findings(0)[0].message


@pytest.mark.long  # thousands of longer rows are compared below
def test_thousands_of_texts_take_seconds():
    random = np.random.default_rng(0)
    words = ["".join(map(chr, random.integers(97, 123, random.integers(2, 9)))) for _ in range(5_000)]
    train, held = ([" ".join(random.choice(words, random.integers(3, 16))) for _ in range(count)] for count in (6_000, 1_500))
    start = time.process_time()
    assert near_repeats.find({"text": train}, {"text": held}).compared == (6_000, 1_500)
    assert time.process_time() - start < 10


def letters_of(alphabet, count, lengths, seed):
    random = np.random.default_rng(seed)
    return ["".join(random.choice(list(alphabet), random.integers(*lengths))) for _ in range(count)]


def with_letters_changed(text, places, alphabet):
    changed = list(text)
    for place in places:
        changed[place] = next(letter for letter in alphabet if letter != text[place])
    return "".join(changed)


@pytest.mark.parametrize(("alphabet", "lengths"), [("ACGT", (100, 301)), ("01", (60, 200)), ("ACDEFGHIKLMNPQRSTVWY", (50, 600))])
def test_unrelated_rows_of_few_letters_are_not_near(alphabet, lengths):
    train, held = (letters_of(alphabet, count, lengths, seed) for count, seed in ((1_000, 1), (200, 2)))
    found = near_repeats.find({"text": train}, {"text": held})
    assert (found.pairs, found.compared, found.why) == ({}, (1_000, 200), "")


@pytest.mark.parametrize(("alphabet", "lengths"), [("ACGT", (100, 301)), ("ACDEFGHIKLMNPQRSTVWY", (50, 600))])
def test_rows_of_few_letters_of_which_two_are_changed_are_near(alphabet, lengths):
    train = letters_of(alphabet, 1_000, lengths, 1)
    held = [with_letters_changed(text, (len(text) // 3, len(text) // 2), alphabet) for text in train[:100]]
    assert near_repeats.find({"text": train}, {"text": held}).pairs == {row: row for row in range(100)}


def test_rows_of_almost_one_letter_only_are_near_by_chance_and_that_is_said():
    random = np.random.default_rng(0)
    train = ["".join("01"[int(one)] for one in random.random(300) < 0.02) for _ in range(200)]
    found = near_repeats.find({"text": train}, {"text": train[:20]})
    assert found.pairs == {}
    assert "few different" in found.why


def test_thousands_of_long_rows_of_few_letters_take_seconds():
    train = letters_of("ACDEFGHIKLMNPQRSTVWY", 5_000, (300, 301), 1)
    held = letters_of("ACDEFGHIKLMNPQRSTVWY", 1_000, (300, 301), 2)
    start = time.process_time()
    assert near_repeats.find({"text": train}, {"text": held}).compared == (5_000, 1_000)
    assert time.process_time() - start < 15


def test_where_the_bound_on_work_ends_the_comparison_the_rows_that_were_compared_are_counted(monkeypatch):
    train = texts(200, 6)
    monkeypatch.setattr(near_repeats, "_LOOKS", 2_000)
    found = near_repeats.find({"text": train}, {"text": train})
    assert 0 < found.compared[1] < 100
    assert len(found.pairs) == found.compared[1]
    assert found.share == 1.0


def test_more_text_than_can_be_compared_is_sampled_evenly_and_that_is_said(monkeypatch):
    monkeypatch.setattr(near_repeats, "_CHARACTERS", (2_000, 1_000))
    train = texts(200, 6)
    found = near_repeats.find({"text": train}, {"text": train})
    assert 0 < found.compared[1] < found.compared[0] < 200
    assert found.facts["compared"] == {"training_rows": found.compared[0], "held_out_rows": found.compared[1]}
    assert set(found.pairs) <= set(range(200))
    assert found.pairs[0] == 0
