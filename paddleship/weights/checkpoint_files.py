"""Read the weights of the eager model from the checkpoint."""

from __future__ import annotations

from pathlib import Path

from paddleship.errors import CandidateError
from paddleship.shipped.computing import layers
from paddleship.weights.candidate_tensors import Tensor, Tensors


def read(folder: Path) -> Tensors:
    """The tensors of the checkpoint in `folder`. Raises CandidateError."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return {name: Tensor(array) for name, array in load_file(folder / layers.WEIGHTS).items()}
    except (OSError, SafetensorError) as error:
        raise CandidateError(f"{folder / layers.WEIGHTS} cannot be read ({error})") from None
