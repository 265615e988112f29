"""/v1/portal-sessions: a one-use link into the console, for an owner who is at the provider's own page."""

import base64
from datetime import timedelta
from urllib.parse import quote

from calls import current, new_router
from hookkeeper.api import PortalSessionIn, PortalSessionOut
from hookkeeper.domain.access import Right
from hookkeeper.domain.tenancy import checked_id
from hookkeeper.usecases.portal_session import create_link

TOKEN_BYTES = 32

router = new_router()


@router.post("/v1/portal-sessions", tags=["console"], status_code=201)
def create(wanted: PortalSessionIn) -> PortalSessionOut:
    """Send the owner's browser to `url`: it opens one time, and until `expires_at`.

    The session may do what the key that asked for it may, for `ttl_seconds`.
    """
    call = current(router)
    call.allow(Right.SUBSCRIPTIONS_READ)
    if wanted.tenant_id is not None:
        checked_id(wanted.tenant_id, field="tenant_id")
    token = base64.urlsafe_b64encode(call.reach.entropy(TOKEN_BYTES)).decode().rstrip("=")
    link = create_link(
        call.enter(tenant_id=wanted.tenant_id, mode=wanted.mode),
        token=token,
        rights=call.rights,
        session_life=timedelta(seconds=wanted.ttl_seconds),
        actor=call.actor,
        now=call.now,
        sessions=call.reach.sessions,
        audit=call.reach.audit,
        ids=call.reach.ids,
    )
    url = f"{call.reach.console_url}/open?token={quote(token, safe='')}"
    return PortalSessionOut(url=url, expires_at=link.expires_at)
