"""The embedded AWS of the integration tests: their own, never the one that `make up` left running."""

from collections.abc import Iterator

import pytest

from infra.local import lifecycle
from infra.local.authority import server_context
from infra.local.home import CHECKOUT, Home
from infra.local.receiver import Receiver
from infra.local.stack import Stack


@pytest.fixture(scope="session")
def home() -> Home:
    return Home(CHECKOUT / ".local" / "tests")


@pytest.fixture(scope="session")
def stack(home: Home) -> Iterator[Stack]:
    """The deployed stack, fresh; stopped by its process id afterwards."""
    lifecycle.down(home)
    try:
        yield lifecycle.up(home, print)
    finally:
        lifecycle.down(home)


@pytest.fixture
def receiver(stack: Stack) -> Iterator[Receiver]:
    """A customer's endpoint that the stack's functions can reach and trust."""
    with Receiver(server_context(stack.ca_certificate, stack.ca_key)) as receiver:
        yield receiver
