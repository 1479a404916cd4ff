"""Chinese product reviews: one review a line, one file a class."""

from collections.abc import Iterator
from pathlib import Path


def read(raw: Path) -> Iterator[dict[str, str]]:
    for label, name in (("negative", "neg_sentences.txt"), ("positive", "pos_sentences.txt")):
        with (raw / name).open(encoding="utf-8") as lines:
            for line in lines:
                yield {"text": line, "label": label}
