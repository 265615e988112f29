"""/v1/consents: what a tenant lets applications receive, as the provider records it."""

from calls import in_tenant, is_id, new_router
from hookkeeper.api import ConsentIn, ConsentOut, Page
from hookkeeper.domain.access import Right
from hookkeeper.domain.errors import NotFoundError
from hookkeeper.usecases.consent import grant, withdraw

router = new_router()


@router.post("/v1/consents", tags=["operators"], status_code=201)
def create(wanted: ConsentIn) -> ConsentOut:
    """Grant it: the application may subscribe to these event types; nothing older is handed over."""
    call, scope = in_tenant(router, Right.OPERATE)
    consent = grant(
        scope,
        wanted.application_id,
        wanted.event_types,
        granted_by=wanted.granted_by,
        actor=call.actor,
        now=call.now,
        consents=call.reach.consents,
        ids=call.reach.ids,
    )
    return ConsentOut.of(consent)


@router.get("/v1/consents", tags=["operators"])
def list_all() -> Page[ConsentOut]:
    """A tenant's consents, withdrawn ones too."""
    call, scope = in_tenant(router, Right.OPERATE)
    return Page(data=[ConsentOut.of(each) for each in call.reach.consents.of(scope)], has_more=False)


@router.delete("/v1/consents/<application_id>", tags=["operators"])
def remove(application_id: str) -> ConsentOut:
    """Withdraw it: what is queued or owed is discarded at once, and its subscriptions are suspended."""
    call, scope = in_tenant(router, Right.OPERATE)
    if not is_id(application_id):
        raise NotFoundError("consent", application_id)
    consent = withdraw(
        scope,
        application_id,
        actor=call.actor,
        now=call.now,
        margins=call.reach.margins,
        consents=call.reach.consents,
        subscriptions=call.reach.subscriptions,
        ids=call.reach.ids,
    )
    return ConsentOut.of(consent)
