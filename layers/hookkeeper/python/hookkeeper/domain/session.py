"""Who is signed in to the console, and the one-use links that let an owner in.

Of a link and of a session the SHA-256 alone is kept: whoever reads the table can use neither.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from hookkeeper.domain.access import Right
from hookkeeper.domain.errors import HookkeeperError
from hookkeeper.domain.tenancy import Scope

LINK_LIFE = timedelta(minutes=5)
"""How long a link may lie before it is opened."""

SHORTEST_SESSION = timedelta(minutes=1)
LONGEST_SESSION = timedelta(hours=1)


class LinkFlaw(StrEnum):
    """Why a link lets nobody in."""

    UNKNOWN = "unknown"
    USED = "used"
    EXPIRED = "expired"


class LinkRefusedError(HookkeeperError):
    """The link is not one of ours, or was used, or is too old; the way out is a new one."""

    def __init__(self, flaw: LinkFlaw) -> None:
        super().__init__(f"the link is {flaw}")
        self.flaw = flaw


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalLink:
    """A link that lets one browser into one tenant's console, once.

    `session_life` and `rights` are what its session will have; `used_by` is that session's SHA-256.
    """

    sha256: str
    scope: Scope
    rights: frozenset[Right]
    actor: str
    expires_at: datetime
    session_life: timedelta
    used_by: str | None = None

    def flaw(self, now: datetime) -> LinkFlaw | None:
        if self.used_by is not None:
            return LinkFlaw.USED
        return LinkFlaw.EXPIRED if now >= self.expires_at else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A browser that is signed in until `expires_at`.

    `actor` is the API key's id that let it in. `key_sha256` names the key that signed in by itself: the
    session ends with it. `scope` is the tenant and mode it sees; an operator's is the one acted for, if any.
    """

    sha256: str
    rights: frozenset[Right]
    actor: str
    expires_at: datetime
    scope: Scope | None = None
    key_sha256: str | None = None

    @property
    def operator(self) -> bool:
        return Right.OPERATE in self.rights

    def may(self, right: Right) -> bool:
        return right in self.rights or self.operator
