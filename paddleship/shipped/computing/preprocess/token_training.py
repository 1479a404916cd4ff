"""Train a tokenizer on texts, so that equal texts give an equal tokenizer, byte for byte."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from paddleship.shipped.computing.preprocess.text import UnicodeForm

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Model = Literal["bpe", "wordpiece", "unigram"]
PAD, UNKNOWN, FIRST, BETWEEN = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_COVERED = 0.9995  # share of all characters of the texts that the characters of the vocabulary are to be, as in SentencePiece
_INSIDE = "##"  # in WordPiece, the beginning of a token that continues a word
_DIGITS = 6  # of a score of Unigram, whose sums depend on the order of a hash table
_LONGEST_PIECE, _SEEDS = 8, 10  # of Unigram: characters of a token, and tokens that training begins with, for each that it keeps


@dataclass(frozen=True)
class Recipe:
    """How a tokenizer is made."""

    model: Model
    vocabulary_size: int
    unicode_form: UnicodeForm | None
    lowercase: bool


def untrained(recipe: Recipe) -> Tokenizer:
    """The tokenizer without a vocabulary: how it normalises and splits text, and which special tokens it adds."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    model = {"bpe": models.BPE, "wordpiece": models.WordPiece, "unigram": models.Unigram}[recipe.model]
    tokenizer = Tokenizer(model() if recipe.model == "unigram" else model(unk_token=UNKNOWN))
    tokenizer.normalizer = _normalizer(recipe)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{FIRST} $A {BETWEEN}",
        pair=f"{FIRST} $A {BETWEEN} $B:1 {BETWEEN}:1",
        special_tokens=[(token, SPECIAL.index(token)) for token in (FIRST, BETWEEN)],
    )
    return tokenizer


@lru_cache(maxsize=1)  # several inputs of a model are made from one column
def train(texts: tuple[str, ...], recipe: Recipe) -> str:
    """The content of a tokenizer.json; it does not depend on the order of the texts."""
    tokenizer = untrained(recipe)
    characters, known = _known(texts, tokenizer.normalizer, most=(recipe.vocabulary_size - len(SPECIAL)) // 2)
    reserved = [*SPECIAL, *(f"{_INSIDE}{one}" for one in characters if recipe.model == "wordpiece")]  # else a hash table orders these
    with _one_thread():
        tokenizer.train_from_iterator(known, _trainer(recipe, reserved))
    made = json.loads(tokenizer.to_str())
    if recipe.model == "unigram":
        made["model"]["vocab"] = _ordered(made["model"]["vocab"])
    made["added_tokens"] = [one for one in made["added_tokens"] if one["content"] in SPECIAL]
    return json.dumps(made, ensure_ascii=False, separators=(",", ":"))


def _normalizer(recipe: Recipe) -> Any:
    from tokenizers import normalizers

    form = [getattr(normalizers, recipe.unicode_form)()] if recipe.unicode_form else []
    lower = [normalizers.Lowercase()] if recipe.lowercase else []
    chinese = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False)
    return normalizers.Sequence([*form, *lower, *([chinese] if recipe.model == "wordpiece" else []), normalizers.Strip()])


def _known(texts: Sequence[str], normalizer: Any, *, most: int) -> tuple[list[str], list[str]]:
    """The characters that the vocabulary gets, most frequent first, and the normalised texts with spaces in place of all others."""
    normal = [normalizer.normalize_str(text) for text in texts]
    counts = Counter("".join("".join(text.split()) for text in normal))
    ranked, total, covered = sorted(counts, key=lambda one: (-counts[one], one)), counts.total(), 0
    known: list[str] = []
    for character in ranked[:most]:
        if covered >= _COVERED * total:
            break
        known.append(character)
        covered += counts[character]
    others = {ord(one): " " for one in ranked[len(known) :]}
    return known, [text.translate(others) for text in normal]


def _trainer(recipe: Recipe, reserved: list[str]) -> Any:
    from tokenizers import trainers

    common: dict[str, Any] = {"vocab_size": recipe.vocabulary_size, "special_tokens": reserved, "show_progress": False}
    if recipe.model == "bpe":
        return trainers.BpeTrainer(**common)
    if recipe.model == "wordpiece":
        return trainers.WordPieceTrainer(**common, continuing_subword_prefix=_INSIDE)
    common |= {"seed_size": recipe.vocabulary_size * _SEEDS, "max_piece_length": _LONGEST_PIECE}
    return trainers.UnigramTrainer(**common, unk_token=UNKNOWN)


def _ordered(vocabulary: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Tokens of Unigram with rounded scores, by score; special tokens stay first.

    Last come the characters that training keeps although they are too rare. It gives them falling scores in the order of a hash table.
    """
    scores = [(token, round(score, _DIGITS)) for token, score in vocabulary]
    order = sorted(scores[len(SPECIAL) :], key=lambda one: (-one[1], one[0]))
    end = max((index for index, (token, _) in enumerate(order, 1) if len(token) > 1), default=0)
    rare = sorted(token for token, _ in order[end:])
    return [*scores[: len(SPECIAL)], *order[:end], *zip(rare, (score for _, score in order[end:]), strict=True)]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Train in one thread, whose sums are the same each time, and which needs no lock in forked processes."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "false"
    try:
        yield
    finally:
        os.environ.pop(name)
        os.environ.update({} if before is None else {name: before})
