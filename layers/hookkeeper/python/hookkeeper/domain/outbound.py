"""One HTTP request that is to leave for an endpoint, as the sender takes it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundRequest:
    """A POST of `body` to a canonical URL.

    `endpoint_key` says whose connections may be shared: the tenant, mode and endpoint, never a host alone.
    `secrets_to_hide` are cut out of whatever the answer echoes.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)
    timeout_seconds: float
    endpoint_key: str
    secrets_to_hide: tuple[str, ...] = field(default=(), repr=False)
