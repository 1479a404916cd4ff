"""Say why an array file cannot be read, without numpy's advice to unpickle it: files from elsewhere are never unpickled."""

from __future__ import annotations


def reason(error: BaseException) -> str:
    """The message of an error from `numpy.load`."""
    text = str(error)
    return "it holds no plain arrays: it is damaged, or was not written by this stage" if "pickle" in text else text
