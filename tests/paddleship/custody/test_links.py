"""The params that the out of a stage depends on, as its seal records them."""

from paddleship.custody.links import LINKS


def test_another_answer_is_exported_and_proven_again_and_trains_nothing(reviews_params):
    before, after = reviews_params(), reviews_params({"answer": {"top": 2}})
    differing = {stage for stage, link in LINKS.items() if link.values(before) != link.values(after)}
    assert differing == {"export", "verify"}, "the stages after them read an out of theirs"
    assert LINKS["verify"].values(before)["answer"] == "label"
    assert LINKS["verify"].values(after)["answer"]["top"] == 2


def test_classes_of_a_file_are_sealed_as_those_of_a_list(reviews_params, tmp_path):
    file = tmp_path / "raw" / "classes.txt"
    file.parent.mkdir()
    file.write_text("negative\npositive\n")
    of_file = reviews_params({"data": {"classes": {"file": str(file)}, "raw": str(file.parent)}})
    assert LINKS["train"].values(of_file) == LINKS["train"].values(reviews_params())
    file.write_text("negative\npositive\nmixed\n")
    assert LINKS["train"].values(of_file)["data.classes"] == ["negative", "positive", "mixed"]


def test_a_class_file_is_found_from_another_working_directory(reviews_params, tmp_path):
    (tmp_path / "examples/reviews").mkdir(parents=True)
    (tmp_path / "examples/reviews/classes.txt").write_text("a\nb\n")
    data = reviews_params({"data": {"classes": {"file": "examples/reviews/classes.txt"}}}).data
    assert data.rooted(tmp_path).class_names == ["a", "b"]
    assert reviews_params().data.rooted(tmp_path).class_names == ["negative", "positive"]
