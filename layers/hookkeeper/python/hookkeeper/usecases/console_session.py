"""Sign in to the console with an API key, be known by one's session, act for a tenant, sign out."""

from datetime import datetime

from hookkeeper.domain.access import ApiKey, KeyKind, Right, key_hash, well_formed
from hookkeeper.domain.errors import ConflictError, NotFoundError
from hookkeeper.domain.session import LONGEST_SESSION, Session
from hookkeeper.domain.signature import token_hash
from hookkeeper.domain.tenancy import Scope
from hookkeeper.ports import Access, Sessions


def sign_in(
    key_text: str, *, session_secret: str, now: datetime, access: Access, sessions: Sessions
) -> Session | None:
    """A session for whoever has the key: an operator's, or one of the key's own tenant and mode.

    None where it is no key, or has ended, or is an application's, which no tenant has let in.
    """
    key = access.key_by_hash(key_hash(key_text)) if well_formed(key_text) else None
    if key is None or not key.usable(now) or key.kind is KeyKind.APP:
        return None
    session = Session(
        sha256=token_hash(session_secret),
        rights=key.rights,
        actor=key.id,
        expires_at=now + LONGEST_SESSION,
        scope=_scope_of(key),
        key_sha256=key.sha256,
    )
    sessions.put(session)
    return session


def current_session(
    session_secret: str, *, now: datetime, access: Access, sessions: Sessions
) -> Session | None:
    """The session of whoever has the secret; None where it has ended, or its key was taken away."""
    session = sessions.get(token_hash(session_secret))
    if session is None or now >= session.expires_at:
        return None
    if session.key_sha256 is not None:
        key = access.key_by_hash(session.key_sha256)
        if key is None or not key.usable(now):
            return None
    return session


def act_for(session: Session, scope: Scope, *, access: Access, sessions: Sessions) -> None:
    """Let an operator see a tenant. Raises NotFoundError, ConflictError for anybody else."""
    if Right.OPERATE not in session.rights:
        raise ConflictError("only operators act for a tenant")
    if access.tenant(scope.tenant_id) is None:
        raise NotFoundError("tenant", scope.tenant_id)
    if not sessions.act_for(session, scope):
        raise ConflictError("the session has ended; sign in again")


def sign_out(session: Session, *, sessions: Sessions) -> None:
    sessions.end(session.sha256)


def _scope_of(key: ApiKey) -> Scope | None:
    return Scope(key.tenant_id, key.mode) if key.tenant_id is not None and key.mode is not None else None
