"""Pictures as data: folders and tables of files, rows that hold bytes, and what is written and read of them."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from paddleship.config.sections.data import Data
from paddleship.data import dataset, near_repeats
from paddleship.data.encoded_rows import EncodedRows
from paddleship.data.row_validation import RowValidator
from paddleship.errors import DataError
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.spec import TensorSpec
from tests.pictures import drawn, encoded

SPECS = [TensorSpec("x", "float32", ("batch", 3, 8, 8)), TensorSpec("price", "float32", ("batch",))]
ENTRIES = {"x": {"kind": "image", "column": "picture", "resize": "exact"}}


def settings(raw, **changes):
    values = {"raw": str(raw), "reader": "pictures", "inputs": ["picture"], "task": "classification", "classes": ["cat", "dog"]}
    return Data(**values | {"validation": 0.2, "test": 0.2} | changes)


def validator(data):
    specs = [spec for spec in SPECS if spec.name in data.inputs or spec.name == "x"]
    return RowValidator(data, preprocess.build({"inputs": ENTRIES}, specs))


@pytest.fixture
def folder(tmp_path):
    """Two classes of pictures, beside files that no reader should see."""
    for label, seeds in (("dog", (3, 1)), ("cat", (2,))):
        (tmp_path / "raw" / label).mkdir(parents=True)
        for seed in seeds:
            (tmp_path / "raw" / label / f"{seed}.png").write_bytes(encoded(drawn(seed=seed)))
    (tmp_path / "raw" / "cat" / ".DS_Store").write_bytes(b"\0")
    return tmp_path / "raw"


def test_the_label_of_a_picture_is_its_folder(folder):
    (folder / "cat" / "more").mkdir()
    (folder / "cat" / "more" / "4.jpg").write_bytes(encoded(drawn(seed=4), "JPEG"))
    rows = dataset.read_raw(settings(folder))
    assert [(row["file"], row["label"]) for row in rows] == [
        *(("cat/2.png", "cat"), ("cat/more/4.jpg", "cat"), ("dog/1.png", "dog"), ("dog/3.png", "dog"))
    ]
    assert rows[0]["picture"] == (folder / "cat/2.png").read_bytes()


def test_a_table_in_the_folder_names_labels_and_other_columns(folder):
    (folder / "labels.csv").write_text("file,label,price\ndog/1.png,cat,3\ncat/2.png,dog,4.5\n", encoding="utf-8")
    rows = dataset.read_raw(settings(folder, kwargs={"labels": "labels.csv"}, inputs=["picture", "price"]))
    assert [(row["file"], row["label"], row["price"]) for row in rows] == [("dog/1.png", "cat", 3), ("cat/2.png", "dog", 4.5)]
    assert rows[1]["picture"] == (folder / "cat/2.png").read_bytes()


def test_a_folder_without_subfolders_gives_rows_without_labels(tmp_path):
    (tmp_path / "1.png").write_bytes(encoded(drawn()))
    assert [{*row} for row in tables_rows(tmp_path)] == [{"picture", "file"}]
    with pytest.raises(DataError, match=r"returns no column 'label' \(it returns picture, file\)"):
        dataset.read_raw(settings(tmp_path))


def tables_rows(raw, **kwargs):
    from paddleship.data import tables

    return list(tables.reader("pictures", (), ())(raw, **kwargs))


def test_a_csv_may_hold_paths_of_pictures(folder):
    (folder / "shop.csv").write_text("picture,price,label\ndog/1.png,3,dog\n,4,cat\n", encoding="utf-8")
    rows = dataset.read_raw(settings(folder / "shop.csv", reader="csv", kwargs={"pictures": ["picture"]}))
    assert rows == [
        {"picture": (folder / "dog/1.png").read_bytes(), "price": 3, "label": "dog"},
        {"picture": None, "price": 4, "label": "cat"},
    ]
    (folder / "shop.csv").write_text("picture,price,label\ndog/7.png,3,dog\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 2 of .*shop.csv' names the file 'dog/7.png', and there is none in"):
        dataset.read_raw(settings(folder / "shop.csv", reader="csv", kwargs={"pictures": ["picture"]}))


def test_what_is_no_picture_is_named(folder):
    (folder / "dog" / "notes.txt").write_text("my notes", encoding="utf-8")
    with pytest.raises(DataError, match=r"the file 'dog/notes.txt' of data.raw .* is not a picture.*: correct it or remove it"):
        dataset.read_raw(settings(folder))


def test_files_beside_folders_have_no_label(folder):
    (folder / "7.png").write_bytes(encoded(drawn()))
    with pytest.raises(DataError, match=r"has the file '7.png' beside the folder 'cat', so that it has no label: put every picture"):
        dataset.read_raw(settings(folder))


def test_links_out_of_the_folder_are_refused(folder, tmp_path):
    (tmp_path / "secret.png").write_bytes(encoded(drawn()))
    (folder / "dog" / "9.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(DataError, match=r"the file 'dog/9.png' of data.raw .* is outside .*secret.png\): copy it into the folder"):
        dataset.read_raw(settings(folder))
    (folder / "dog" / "9.png").unlink()
    (tmp_path / "others").mkdir()
    (folder / "bird").symlink_to(tmp_path / "others")
    with pytest.raises(DataError, match=r"bird' is a symbolic link to a folder, which is not followed"):
        dataset.read_raw(settings(folder))
    (folder / "bird").unlink()
    (folder / "labels.csv").write_text("file,label\n../secret.png,cat\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"the file '../secret.png' of data.kwargs.labels 'labels.csv' is outside"):
        dataset.read_raw(settings(folder, kwargs={"labels": "labels.csv"}))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"labels": "none.csv"}, "data.kwargs.labels names the file 'none.csv', and there is none"),
        ({"label": "x"}, "data.kwargs has 'label', which the reader pictures does not know"),
    ],
)
def test_kwargs_that_do_not_fit_are_refused(folder, kwargs, message):
    with pytest.raises(DataError, match=message):
        dataset.read_raw(settings(folder, kwargs=kwargs))


def many(count=40):
    return [{"picture": encoded(drawn(seed=seed)), "label": ("cat", "dog")[seed % 2], "file": f"{seed}.png"} for seed in range(count)]


def test_pictures_are_written_and_read_as_they_are_and_copies_are_repeats(tmp_path):
    data = settings(tmp_path)
    copies = [row | {"picture": encoded(Image.open(_file(tmp_path, row["picture"])), "BMP")} for row in many()]
    check = validator(data)
    splits, counts = dataset.clean([*many(), *copies], data, check)
    assert (counts.repeated, counts.kept) == (40, 40)
    dataset.write(splits, {}, tmp_path)
    for split, rows in splits.items():
        back = dataset.read(tmp_path, split)
        assert back.columns == rows.columns
        assert back.hashes(validator(data).identity) == set(back.keys)
        assert all(isinstance(value, bytes) for value in back.columns["picture"])


def _file(folder, content):
    path = folder / "one.png"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("cats/1.jpg", r"row 40 of data.reader \(last.png\) does not fit model.inputs: input 'picture' must be the bytes of a picture"),
        (encoded(drawn(300, 300))[:9000], r"row 40 of data.reader \(last.png\) .* is a damaged PNG picture"),
        (
            3.0,
            r"must be the bytes of a picture \(got ndarray\): .* let data.reader return path.read_bytes\(\), or return None there to drop",
        ),
    ],
)
def test_a_row_without_a_whole_picture_is_named_with_its_file(tmp_path, value, message):
    data = settings(tmp_path)
    with pytest.raises(DataError, match=message) as refused:
        dataset.clean([*many(), {"picture": value, "label": "cat", "file": "last.png"}], data, validator(data))
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("spec", "entry"),
    [(SPECS[1], {}), (TensorSpec("price", "int64", ("batch", "length")), {"price": {"kind": "characters", "column": "price"}})],
    ids=["numbers", "text"],
)
def test_bytes_where_numbers_or_text_belong_are_refused_without_printing_them(tmp_path, spec, entry):
    data = settings(tmp_path, inputs=["price"])
    with pytest.raises(DataError, match=r"row 0 of data.reader: column 'price' holds 9,000 bytes of type bytes"):
        dataset.clean([{"price": bytes(9000), "label": "cat"}], data, RowValidator(data, preprocess.build({"inputs": entry}, [spec])))


def test_bytes_in_a_column_that_no_input_reads_are_part_of_the_row(tmp_path):
    data = settings(tmp_path, inputs=["price", "seal"], task="regression", classes=[], label="y")
    rows = [{"price": 1.0, "seal": bytes([number]), "y": 0.0} for number in range(60)]
    splits, counts = dataset.clean([*rows, *rows], data, RowValidator(data, preprocess.build({}, SPECS[1:])))
    assert (counts.kept, counts.repeated) == (60, 60)
    dataset.write(splits, {}, tmp_path)
    assert dataset.read(tmp_path, "train").columns["seal"] == splits["train"].columns["seal"]


def test_near_repeats_compare_numbers_only_beside_equal_pictures():
    one, other = encoded(drawn(seed=1)), encoded(drawn(seed=2))
    random = np.random.default_rng(0)
    noise = [(encoded(drawn(seed=seed)), random.normal()) for seed in range(3, 40)]
    train = {"picture": [one, *(picture for picture, _ in noise)], "price": [np.float32(5.0), *(np.float32(value) for _, value in noise)]}
    held = {"picture": [one, other], "price": [np.float32(5.00001), np.float32(5.00001)]}
    found = near_repeats.find(train, held)
    assert found.pairs == {0: 0}
    assert "bytes" in json.dumps(found.examples)
    assert len(found.examples[0]["training"]) < 100
    only = near_repeats.find({"picture": train["picture"]}, {"picture": held["picture"]})
    assert (only.pairs, only.why) == ({}, "columns of files are compared for equality only")


def test_encoded_rows_are_a_sequence_of_which_only_the_first_are_kept():
    encoded_rows = []

    def encode(row):
        encoded_rows.append(row)
        return {"x": np.full(4, row, np.float32)}

    rows = EncodedRows(encode, 5, most_bytes=40)
    assert [row["x"][0] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["x"][0] for row in rows[1:4]] == [1, 2, 3]
    assert rows[-1]["x"][0] == 4
    with pytest.raises(IndexError):
        rows[5]
    assert encoded_rows == [0, 1, 2, 3, 4, 2, 3, 4]


def test_pictures_of_the_data_are_encoded_when_they_are_asked_for(tmp_path):
    data = settings(tmp_path)
    made = preprocess.build({"inputs": ENTRIES}, SPECS[:1])
    splits, _ = dataset.clean(many(), data, validator(data))
    rows = dataset.encode(made, splits["train"])
    assert isinstance(rows, EncodedRows)
    rows = pickle.loads(pickle.dumps(rows))  # noqa: S301 as the benchmark gives them to its processes
    for lazy, whole in zip(rows, made.encode(splits["train"].columns), strict=True):
        np.testing.assert_array_equal(lazy["x"], whole["x"])
    broken = dataset.encode(made, replace(splits["train"], columns={"picture": [b"no picture"] * len(rows)}))
    with pytest.raises(DataError, match=r"the data does not fit model.inputs: input 'picture' is not a picture"):
        broken[0]
