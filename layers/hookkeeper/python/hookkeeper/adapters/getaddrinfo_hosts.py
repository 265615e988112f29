"""Judges a host at registration by what the system's resolver says of it."""

from hookkeeper.adapters.dns_resolver import registration_fault
from hookkeeper.domain.outcome import Fault


class GetaddrinfoHosts:
    """The Hosts port; a stage may name private ranges that are allowed."""

    def __init__(self, *, allowed_private_cidrs: tuple[str, ...] = ()) -> None:
        self._allowed = allowed_private_cidrs

    def fault(self, host: str, port: int) -> Fault | None:
        return registration_fault(host, port, allowed_private_cidrs=self._allowed)
