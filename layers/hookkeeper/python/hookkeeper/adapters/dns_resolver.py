"""Looks up a host and vets every answer: the check made at registration and before every connection."""

import socket
from collections.abc import Callable, Sequence

from hookkeeper.adapters.egress_faults import AttemptFaultError, lookup_fault
from hookkeeper.domain.endpoint import address_allowed
from hookkeeper.domain.outcome import Fault

MAX_ANSWERS = 16

Lookup = Callable[[str, int], Sequence[str]]


def system_lookup(host: str, port: int) -> list[str]:
    """The addresses getaddrinfo gives, in its order; blocks as long as the system's resolver does."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def vet(addresses: Sequence[str], *, allowed_private_cidrs: tuple[str, ...] = ()) -> list[str]:
    """The first 16 answers, all of them allowed; else AttemptFaultError (`blocked_address`).

    One forbidden answer forbids the endpoint, wherever it stands among the good ones.
    """
    considered = list(addresses[:MAX_ANSWERS])
    if not considered:
        raise AttemptFaultError(Fault.DNS_NO_DATA)
    for address in considered:
        if not address_allowed(address, allowed_private_cidrs=allowed_private_cidrs):
            raise AttemptFaultError(Fault.BLOCKED_ADDRESS, f"refused address {address}")
    return considered


def registration_fault(
    host: str, port: int, *, allowed_private_cidrs: tuple[str, ...] = (), lookup: Lookup = system_lookup
) -> Fault | None:
    """What stands against registering the host: None, `blocked_address`, or a fault of the look-up."""
    try:
        vet(lookup(host, port), allowed_private_cidrs=allowed_private_cidrs)
    except AttemptFaultError as error:
        return error.fault
    except UnicodeError:
        return Fault.INVALID_CONFIG
    except OSError as error:
        return lookup_fault(error)
    return None
