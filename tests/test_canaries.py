"""The search for canaries finds them in every form, and nothing where there is none."""

import base64
from urllib.parse import quote

import pytest

from tests import canaries

SECRETS = canaries._SECRETS


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_found_in_every_form(tmp_path, name):
    secret = SECRETS[name]
    for number, form in enumerate([secret, quote(secret), quote(secret, safe=""), *(_basic(user, secret) for user in ("a", "ab", "abc"))]):
        (tmp_path / str(number)).write_text(f"before {form} after")
        assert canaries.in_folder(tmp_path) == [f"{tmp_path / str(number)}: {name}"], form
        (tmp_path / str(number)).unlink()


def _basic(user, secret):
    return base64.b64encode(f"{user}:{secret}".encode()).decode()


def test_nothing_is_found_where_nothing_is(tmp_path):
    (tmp_path / "file").write_text("c4nary ada registry" * 100 + "c4nary-of-nobody")
    assert canaries.in_folder(tmp_path) == []
