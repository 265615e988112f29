"""Let an owner into the console: a link that its provider asks for, and that works once."""

from datetime import datetime, timedelta

from hookkeeper.domain.access import TENANT_RIGHTS, Right
from hookkeeper.domain.audit import Actor, AuditRecord
from hookkeeper.domain.errors import InvalidInputError
from hookkeeper.domain.session import (
    LINK_LIFE,
    LONGEST_SESSION,
    SHORTEST_SESSION,
    LinkFlaw,
    LinkRefusedError,
    PortalLink,
    Session,
)
from hookkeeper.domain.signature import token_hash
from hookkeeper.domain.tenancy import Scope
from hookkeeper.ports import Audit, Ids, Sessions


def create_link(
    scope: Scope,
    *,
    token: str,
    rights: frozenset[Right],
    session_life: timedelta = LONGEST_SESSION,
    actor: Actor,
    now: datetime,
    sessions: Sessions,
    audit: Audit,
    ids: Ids,
) -> PortalLink:
    """A link for whoever has `token`, good for 5 minutes; its session may do what `rights` of a tenant say.

    Raises InvalidInputError (`invalid_ttl`) for a session of less than a minute or more than an hour.
    """
    if not SHORTEST_SESSION <= session_life <= LONGEST_SESSION:
        least, most = (int(life.total_seconds()) for life in (SHORTEST_SESSION, LONGEST_SESSION))
        raise InvalidInputError(f"{least} to {most} seconds", code="invalid_ttl", pointer="/ttl_seconds")
    link = PortalLink(
        sha256=token_hash(token),
        scope=scope,
        rights=rights & TENANT_RIGHTS,
        actor=actor.id,
        expires_at=now + LINK_LIFE,
        session_life=session_life,
    )
    sessions.put_link(link)
    audit.put(
        AuditRecord(
            scope=scope,
            id=ids.new("aud"),
            at=now,
            action="portal_session.created",
            actor=actor,
            subject=scope.tenant_id,
            after={"scopes": ", ".join(sorted(link.rights))},
        )
    )
    return link


def look_at_link(token: str, *, now: datetime, sessions: Sessions) -> PortalLink:
    """The link, if it would still let somebody in; it is not used by this. Raises LinkRefusedError."""
    link = sessions.link(token_hash(token))
    if link is None:
        raise LinkRefusedError(LinkFlaw.UNKNOWN)
    flaw = link.flaw(now)
    if flaw is not None:
        raise LinkRefusedError(flaw)
    return link


def open_link(token: str, *, session_secret: str, now: datetime, sessions: Sessions) -> Session:
    """Use the link up for a session whose holder has `session_secret`. Raises LinkRefusedError."""
    link = look_at_link(token, now=now, sessions=sessions)
    session = Session(
        sha256=token_hash(session_secret),
        rights=link.rights,
        actor=link.actor,
        expires_at=now + link.session_life,
        scope=link.scope,
    )
    if not sessions.open_link(link, session, now=now):
        raise LinkRefusedError(LinkFlaw.USED)
    return session
