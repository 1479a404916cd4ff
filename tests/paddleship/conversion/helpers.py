"""Batches for the models of `theirs.py`, answers from a child process, and the judgement on a candidate."""

import numpy as np

from paddleship.config.sections.verify import Verify
from paddleship.model.eager import Eager
from paddleship.proof import evidence, parity
from paddleship.proof.cases import inputs
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.system import isolate


def batch(size, seed=0, scale=1.0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(size, 16)).astype(np.float32) * np.float32(scale)
    return {"x": x, "ids": random.integers(0, 10, (size, 5))}


def ask(load, *arguments, batches):
    with isolate.Isolated("asked", load, *arguments, timeout_s=100) as child:
        return [child.call("run", inputs) for inputs in batches]


def judged(source_model, folder):
    """The judgement on a candidate whose labels are eager's own decisions."""
    examples = [{"x": row} for row in batch(512, 99)["x"]]
    cases = inputs.from_rows(examples, [item.spec() for item in source_model.model.inputs], collate, max_batch=64)
    asked = [case.inputs for case in cases]
    reference = ask(Eager, source_model, batches=asked)
    truth = [{key: array.astype(np.float64) for key, array in answer.items()} for answer in reference]
    labels = np.concatenate([answer["output"].argmax(-1) for answer in ask(Eager, source_model, batches=[collate(examples)])])
    known = evidence.gather(cases, reference, truth, task="classification", labels=labels)
    answers = ask(runtimes.load, folder, batches=asked)
    limits = Verify(max_flip_rate=0.08, max_metric_drop=0.08)  # fresh weights decide by a hair
    return parity.judge(known, answers, limits=limits, precision=Candidate.load(folder).precision)


def collate(examples):
    return {"x": np.stack([example["x"] for example in examples])}
