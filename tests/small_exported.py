"""A small picture classifier as somebody exported it, for tests of train.source.exported: is the left or the right half brighter?"""

import subprocess
import sys

import yaml

READER = """
import numpy as np


def read(raw):
    random = np.random.default_rng(0)
    for number in range(240):
        picture = random.normal(size=(1, 8, 8)).astype("float32")
        half = number % 2
        picture[:, :, half * 4 : half * 4 + 4] += 0.7
        yield {"x": picture, "y": ["left", "right"][half]}
"""
EXPORT = """
import sys

import numpy as np
import paddle
from paddle import nn

import pictures

paddle.seed(0)
network = nn.Sequential(
    nn.Conv2D(1, 4, 3, padding=1), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2), nn.Flatten(), nn.Linear(64, 2), nn.Softmax()
)
rows = list(pictures.read(None))
x = paddle.to_tensor(np.stack([row["x"] for row in rows]))
y = paddle.to_tensor([["left", "right"].index(row["y"]) for row in rows])
adam = paddle.optimizer.Adam(0.01, parameters=network.parameters())
for _ in range(30):
    loss = nn.functional.nll_loss(paddle.log(network(x)), y)
    loss.backward()
    adam.step()
    adam.clear_grad()
network.eval()
paddle.jit.save(network, sys.argv[1], input_spec=[paddle.static.InputSpec([None, 1, 8, 8], "float32", "x")])
"""


def export(folder):
    """Write `inference.json`, `inference.pdiparams` and the reader `pictures.py` into the folder."""
    (folder / "pictures.py").write_text(READER)
    (folder / "raw").touch()
    subprocess.run([sys.executable, "-c", EXPORT, str(folder / "inference")], cwd=folder, check=True, capture_output=True)


def values(folder, **source):
    """The values of params.yaml that point at the folder."""
    return yaml.safe_load(f"""
name: halves
code: {{root: {folder}, watch: {folder}/pictures.py}}
data: {{raw: {folder}/raw, reader: "pictures:read", inputs: [x], label: y, task: classification, classes: [left, right],
  validation: 0.2, test: 0.2}}
model:
  inputs: [{{name: x, dtype: float32, shape: [batch, 1, 8, 8]}}]
train: {{min_score: 0.8}}
package: {{repository: paddleship/halves}}
""") | {"train": {"min_score": 0.8, "source": {"exported": str(folder / "inference.json"), **source}}}
