"""Refuse credentials in the params, which go into git, DVC, MLflow and release.json.

A key is judged by its words, so that `max_tokens`, `pad_token`, `token_dim` and `tokenizer` pass. A value is judged only by forms that
nothing else has: an address with a password, and a private key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from paddleship.errors import ParamsError

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PASSWORDS = {"password", "passwd", "pwd", "passphrase"}
_SECRETS = {"secret", "apikey", "credential", "credentials"}
_KEYS = {"api", "access", "secret", "private", "signing", "encryption"}  # before `key`
_TOKENS = {"access", "api", "auth", "bearer", "refresh", "session", "security", "personal", "id", "hf", "github", "gitlab", "registry"}
_VALUE = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s]+@|https?://[^/\s:@]{16,}@|-----BEGIN [A-Z ]*PRIVATE KEY-----", re.IGNORECASE)
_REFERENCE = ("$", "env:")  # the name of something outside, such as ${DB_PASSWORD}


def require_none(values: Any, *, origin: str) -> None:
    """Raise ParamsError, without the value, if a key or a value of the params looks like a credential."""
    for path, value in _leaves(values, ()):
        if _looks_secret(path, value):
            raise ParamsError(
                f"{origin}: {'.'.join(path)} looks like a credential, and params are copied into git, DVC, MLflow and release.json: "
                "put it into an environment variable, a file outside git or a Prefect block, and remove it here"
            )


def _leaves(values: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is neither mapping nor list, with the keys on the way to it."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _leaves(value, path)
    else:
        yield path, values


def _looks_secret(path: tuple[str, ...], value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return False
    parts = [word.lower() for word in _WORDS.findall(path[-1])] if path else []
    last, before = (parts or [""])[-1], (parts or [""])[-2:-1]
    if isinstance(value, int):
        return last in _PASSWORDS  # a number may be the id or the count of tokens
    if value.startswith(_REFERENCE):
        return False
    named = last in _PASSWORDS | _SECRETS or (last == "key" and before[:1] != [] and before[0] in _KEYS)
    token = last == "token" and (not before or before[0] in _TOKENS)
    return named or token or parts[-3:] == ["access", "key", "id"] or bool(_VALUE.search(value))
