"""Fetch the wines: the data set of scikit-learn, which is installed with paddleship, as a table with the name of each cultivar."""

import csv
import sys
from pathlib import Path

from sklearn.datasets import load_wine

from paddleship.shipped.computing.files import new_folder


def fetch(target: Path) -> None:
    wines = load_wine()
    columns = [name.replace("/", "_") for name in wines.feature_names]
    with new_folder(target) as beside, (beside / "wine.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([*columns, "cultivar"])
        for row, label in zip(wines.data.tolist(), wines.target, strict=True):
            lines.writerow([*row, wines.target_names[label]])


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
