"""Two images of which nothing else is known: what is asked of them, what is refused, and that it is what `promote` computes."""

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from paddleship.acceptance.transport import ServerError
from paddleship.comparison import contestants, measurement, side_by_side
from paddleship.comparison.contestants import Contestant
from paddleship.comparison.file_rows import FileRows
from paddleship.comparison.side_by_side import Limits, ServedImage
from paddleship.containers import image
from paddleship.data.dataset import Rows
from paddleship.errors import BadInput
from paddleship.promotion import score_comparison
from paddleship.shipped.computing import candidate as candidates
from tests.made_images import CLASSES, candidate, compared

ROWS = Rows({"text": [f"row {number}" for number in range(40)]}, np.arange(40) % 2, [str(number) for number in range(40)])
INPUTS = [{"name": "text", "datatype": "BYTES", "shape": [-1]}]


class Server:
    """A server that answers the class `right` of `accuracy` of the rows, and refuses the row of the index `refuses`."""

    def __init__(self, *, accuracy, refuses=None, inputs=INPUTS):
        self.accuracy, self.refuses, self.inputs, self.asked = accuracy, refuses, inputs, 0

    def connect(self):
        return self

    def close(self):
        pass

    def metadata(self):
        return {"inputs": self.inputs}

    def encode(self, tensors):
        return repr(tensors).encode()

    def ask(self, tensors):
        number = int(tensors["text"][0].split()[1])
        self.asked += 1
        if number == self.refuses:
            raise ServerError("the server answered 400", 400)
        return {"scores": self.answer(number), "label": np.array([CLASSES[int(self.answer(number)[0, 1])]], object)}

    def answer(self, number):
        right = number % 2 if number < self.accuracy * len(ROWS) else 1 - number % 2
        return np.eye(2, dtype=np.float32)[right][None]


@pytest.fixture
def compare(monkeypatch):
    """Compare the images of two servers; the servers' number of starts is in the list `started`."""

    def run(*servers, held_out_of="da7a", rows=ROWS, data=("da7a", "0ther")):
        started = []

        @contextmanager
        def sandbox(_client, served, _limits):
            started.append(served.title)
            yield SimpleNamespace(memory_bytes=lambda: 1000 * len(started))

        monkeypatch.setattr(side_by_side, "started", sandbox)
        monkeypatch.setattr(side_by_side, "ready", lambda _sandbox, served, _limits: servers[int(served.image_id)])
        monkeypatch.setattr(side_by_side, "race", lambda *_, **__: compared().latency)
        pair = [
            Contestant(ServedImage(f"images/{name}", str(number), "one"), candidate(), 100 + number, of, packaged=False)
            for number, (name, of) in enumerate(zip("ab", data, strict=True))
        ]
        asked = FileRows("rows.csv", rows, 50, held_out_of)
        return measurement.compare(None, *pair, asked, Limits(1, 1), effect=0.05, seconds=1), started

    return run


def test_the_answers_are_compared_as_promote_compares_them(compare):
    servers = Server(accuracy=0.9), Server(accuracy=0.6)
    found, started = compare(*servers)
    outputs = [
        [{"scores": server.answer(number), "label": np.array([CLASSES[int(server.answer(number)[0, 1])]], object)} for number in range(40)]
        for server in servers
    ]
    assert found.answers == score_comparison.compare(ROWS, *outputs, task="classification", classes=CLASSES)
    assert found.answers.flips == 12
    assert found.latency == compared().latency
    assert started == ["images/a", "images/b", "images/b", "images/a", "images/a", "images/b"], "in turn, so that neither starts colder"
    assert [(one.name, one.reference, len(one.starts_s), one.size_bytes) for one in found.images] == [
        ("a", "images/a", 3, 100),
        ("b", "images/b", 3, 101),
    ]
    assert (found.images[0].idle_bytes, found.images[1].loaded_bytes) == (1000, 2000)


def test_an_image_of_other_data_may_have_learned_from_the_rows(compare):
    assert compare(Server(accuracy=1), Server(accuracy=1))[0].unknown_training == ["b"]
    assert compare(Server(accuracy=1), Server(accuracy=1), held_out_of=None, data=(None, None))[0].unknown_training == ["a", "b"]


def test_images_with_different_inputs_are_refused_before_the_second_is_asked(compare):
    other = Server(accuracy=1, inputs=[{"name": "picture", "datatype": "BYTES", "shape": [-1]}])
    with pytest.raises(
        BadInput, match=r"do not take the same inputs \(images/a takes text BYTES\[-1\] and images/b takes picture BYTES\[-1\]\)"
    ):
        compare(Server(accuracy=1), other)
    assert other.asked == 0


@pytest.mark.parametrize("row", [0, 7])
def test_a_row_that_an_image_refuses_is_named(compare, row):
    with pytest.raises(BadInput, match=f"'images/b' does not take the rows \\(row {row}: the server answered 400\\)"):
        compare(Server(accuracy=1), Server(accuracy=1, refuses=row))


def test_rows_without_the_column_of_the_images_are_refused(compare):
    with pytest.raises(BadInput, match="'images/a' does not take the rows \\(its input 'text' is not a column of the rows\\)"):
        compare(Server(accuracy=1), Server(accuracy=1), rows=replace(ROWS, columns={"body": ROWS.columns["text"]}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": "regression"}, "task: classification and regression"),
        ({"classes": ("good", "bad")}, "classes: no, yes and good, bad"),
        ({"outputs": (replace(candidate().outputs[0], shape=("batch", 3)),)}, "labels in answers: yes and no"),
    ],
)
def test_images_whose_answers_have_different_forms_are_refused(changes, reason):
    one, other = (
        Contestant(ServedImage(name, name, "m"), made, 1, None, packaged=False)
        for name, made in (("a", candidate()), ("b", candidate(**changes)))
    )
    with pytest.raises(BadInput, match=f"a and b do not answer in the same form \\({reason}\\)"):
        measurement.require_different(one, other)
    with pytest.raises(BadInput, match=r"'a' and 'a' are one image \(a\): give two"):
        measurement.require_different(one, one)


def test_an_image_that_is_not_of_this_paddleship_is_refused(monkeypatch, tmp_path):
    stored = SimpleNamespace(id="sha256:1", attrs={"Size": 5}, labels={"io.paddleship.data-sha256": "da7a"})
    client = SimpleNamespace(images=SimpleNamespace(get=lambda _: stored))
    texts = iter(["", json.dumps({"schema_version": 1}), (tmp_path / candidates.FILE)])
    monkeypatch.setattr(image, "id_of", lambda _client, _name: stored.id)
    monkeypatch.setattr(image, "read_file", lambda *_: next(texts))
    with (
        pytest.raises(BadInput, match=r"'python' is no image of paddleship \(it has no /opt/paddleship/model/candidate\.json\)"),
        contestants.opened(client, "python"),
    ):
        pass
    with (
        pytest.raises(BadInput, match=r"'old' was made by another version of paddleship \(candidate\.json has schema version 1"),
        contestants.opened(client, "old"),
    ):
        pass
    text = (candidate().save(tmp_path), (tmp_path / candidates.FILE).read_text())[1]
    monkeypatch.setattr(image, "read_file", lambda *_: text)
    with contestants.opened(client, "new") as opened:
        assert (opened.candidate, opened.size_bytes, opened.data_sha256, opened.packaged) == (candidate(), 5, "da7a", False)


def test_a_folder_without_a_candidate_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"holds no candidate\.json: give a candidate folder"), contestants.opened(None, str(tmp_path)):
        pass
