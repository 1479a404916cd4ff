"""How many requests one client may have in flight, and who one client is."""

from contextlib import ExitStack

import pytest

from paddleship.shipped.serving.clients import Clients
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.options import Tokens

ONE, OTHER = b"Bearer a-token-of-one-client", b"Bearer a-token-of-another"
TOKENS = Tokens(tuple(value.removeprefix(b"Bearer ") for value in (ONE, OTHER)))


def has_room(clients, address, authorization=b""):
    try:
        with clients.request(authorization, address):
            return True
    except ServingError:
        return False


def test_a_client_at_its_limit_is_refused_until_one_of_its_requests_ends():
    clients = Clients(2, None)
    with clients.request(b"", "10.0.0.1"):
        with clients.request(b"", "10.0.0.1"):
            with pytest.raises(ServingError, match="has 2 requests in flight, its limit") as refused, clients.request(b"", "10.0.0.1"):
                pytest.fail("it is not refused")
            assert refused.value.kind is Kind.CLIENT_LIMIT
            assert has_room(clients, "10.0.0.2")
        assert has_room(clients, "10.0.0.1")
    assert not clients._requests, "nothing is remembered of a client that asks nothing"


def test_a_request_that_fails_is_in_flight_no_longer():
    clients = Clients(1, None)
    with pytest.raises(ValueError, match="failed"), clients.request(b"", "10.0.0.1"):
        raise ValueError("failed")
    assert has_room(clients, "10.0.0.1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("", "", True),
    ],
)
def test_a_client_is_an_address_or_a_network_of_version_6(one, other, same):
    clients = Clients(1, None)
    with clients.request(b"", one):
        assert has_room(clients, other) is not same


def test_with_tokens_a_client_is_a_token_wherever_it_is():
    clients = Clients(1, TOKENS)
    with ExitStack() as running:
        running.enter_context(clients.request(ONE, "10.0.0.1"))
        assert not has_room(clients, "10.0.0.2", ONE.replace(b"Bearer", b"bearer"))
        assert has_room(clients, "10.0.0.1", OTHER)
        running.enter_context(clients.request(b"Bearer wrong", "10.0.0.1"))
        assert has_room(clients, "10.0.0.1", b"Bearer wrong"), "who may not ask is refused for that"
