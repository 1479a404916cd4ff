"""Silence what Paddle says to its own developers, so that a person reads only what concerns them."""

from __future__ import annotations

import os
import warnings


def silence_paddle() -> None:
    """Call before Paddle is imported: its start-up notes and C++ INFO lines stay away, errors do not."""
    os.environ.setdefault("GLOG_minloglevel", "2")
    warnings.filterwarnings("ignore", message="No ccache found")
    warnings.filterwarnings("ignore", message="Found 'dict' in given outputs")
    warnings.filterwarnings("ignore", message="no variable in your model")
