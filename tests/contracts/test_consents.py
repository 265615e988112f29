"""A consent is one tenant's and mode's, and changes over the one that was read or not at all."""

from dataclasses import replace

from hookkeeper.domain.consent import Consent, granted, withdrawn
from hookkeeper.domain.tenancy import Mode, Scope

from tests.builders import HOUR, NOW, a_scope, an_audit_record
from tests.contracts.stores import Stores

SUBJECT = "consent:erp"


def a_consent(scope: Scope | None = None, application_id: str = "erp") -> Consent:
    return granted(
        None,
        scope=scope or a_scope(),
        application_id=application_id,
        patterns=["invoice.*", "*"],
        granted_by="ada",
        now=NOW,
    )


def put(stores: Stores, consent: Consent, number: int = 1) -> bool:
    return stores.consents.put(consent, an_audit_record(number, scope=consent.scope, subject=SUBJECT))


def test_a_consent_is_read_back_as_it_was_granted_with_its_audit_record(stores: Stores) -> None:
    assert stores.consents.get(a_scope(), "erp") is None
    assert put(stores, a_consent())
    assert stores.consents.get(a_scope(), "erp") == a_consent()
    assert [record.id for record in stores.audit.of(a_scope(), SUBJECT, limit=9)] == [an_audit_record().id]


def test_consents_are_the_tenant_s_and_mode_s_own_in_order(stores: Stores) -> None:
    ours = [a_consent(application_id=name) for name in ("b", "a")]
    for number, consent in enumerate(
        [*ours, a_consent(a_scope("other")), a_consent(a_scope(mode=Mode.TEST))]
    ):
        assert put(stores, consent, number)
    assert stores.consents.of(a_scope()) == [ours[1], ours[0]]
    assert stores.consents.get(a_scope("other"), "a") is None


def test_a_change_is_made_over_the_one_that_was_read_or_not_at_all(stores: Stores) -> None:
    put(stores, a_consent())
    ended = withdrawn(a_consent(), now=NOW + HOUR)
    assert put(stores, ended, 2)
    other = replace(withdrawn(a_consent(), now=NOW + 2 * HOUR), granted_by="eve")
    assert not put(stores, other, 3)
    assert not put(stores, replace(a_consent(), granted_by="eve"), 4)
    assert stores.consents.get(a_scope(), "erp") == ended


def test_a_change_whose_answer_was_lost_is_ones_own(stores: Stores) -> None:
    assert put(stores, a_consent())
    assert put(stores, a_consent())
