"""Who changed what, from where: one record for every mutation, never altered afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hookkeeper.domain.tenancy import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who asked: an API key's id, `system`, or `console:<key id>`; with the address it came from."""

    id: str
    source_ip: str | None = None


SYSTEM = Actor(id="system")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One mutation. `id` is unguessable and time-ordered; `action` is dotted past tense.

    `before` and `after` hold what changed of endpoint_url, event_types, status and the like, as text.
    """

    scope: Scope
    id: str
    at: datetime
    action: str
    actor: Actor
    subject: str
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""
