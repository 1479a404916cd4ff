from pathlib import Path

import pytest
import yaml

from paddleship import params

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture
def reviews_params():
    """The repository's params with an overlay."""
    base = yaml.safe_load((REPOSITORY / "params.yaml").read_text())
    return lambda overlay=None: params.parse(params.merge(base, overlay or {}))
