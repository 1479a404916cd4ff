"""Hide Paddle's start-up notes and INFO lines."""

from __future__ import annotations

import os
import warnings


def silence_paddle() -> None:
    """Call before Paddle is imported; hides its start-up notes and C++ INFO lines, not its errors."""
    os.environ.setdefault("GLOG_minloglevel", "2")
    warnings.filterwarnings("ignore", message="No ccache found")
    warnings.filterwarnings("ignore", message="Found 'dict' in given outputs")
    warnings.filterwarnings("ignore", message="no variable in your model")
    warnings.filterwarnings("ignore", message="When training, we now always track global mean and variance")
