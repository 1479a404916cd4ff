"""The answers of `to_static`, from the process of eager or a new one."""

from contextlib import nullcontext

import numpy as np

from paddleship.errors import ProcessDied
from paddleship.proof import reference
from paddleship.proof.cases.inputs import Case

CASES = [Case("a row", "rows", {"x": np.ones((1, 2), np.float32)}, (0,))]


class Model:
    """Answers, or dies at once."""

    def __init__(self, *, dies):
        self.dies, self.forms = dies, []

    def call(self, method, argument):
        if method == "become":
            self.forms.append(argument)
            return None
        if self.dies:
            raise ProcessDied("eager died of SIGSEGV (run)")
        return {"y": argument["x"] * 2}


def test_a_process_that_dies_of_many_forms_is_replaced_once():
    fresh = Model(dies=False)
    (answer,) = reference._static(Model(dies=True), lambda: nullcontext(fresh), CASES)
    assert answer["y"].tolist() == [[2.0, 2.0]]
    assert fresh.forms == ["static"]


def test_a_model_that_kills_a_new_process_too_has_no_answer():
    assert "SIGSEGV" in reference._static(Model(dies=True), lambda: nullcontext(Model(dies=True)), CASES)
