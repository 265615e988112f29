"""Audit records stay as they were written, each subject's in order of time."""

from dataclasses import replace

from hookkeeper.domain.audit import Actor
from hookkeeper.domain.tenancy import Mode

from tests.builders import HOUR, NOW, a_key, a_scope, an_audit_record
from tests.contracts.stores import Stores

SUBJECT = a_key().subscription_id


def test_what_was_put_is_read_back_whole(stores: Stores) -> None:
    full = an_audit_record(1, before={"status": "active", "url": ""}, after={"a": "b"}, detail="why")
    plain = an_audit_record(2, actor=Actor(id="system"))
    for record in (full, plain):
        stores.audit.put(record)
    assert stores.audit.of(a_scope(), SUBJECT, limit=9) == [plain, full]


def test_a_record_put_again_is_not_altered(stores: Stores) -> None:
    stores.audit.put(an_audit_record())
    stores.audit.put(an_audit_record(action="subscription.other", at=NOW + HOUR))
    assert stores.audit.of(a_scope(), SUBJECT, limit=9) == [an_audit_record()]


def test_records_are_read_backwards_from_any_of_them(stores: Stores) -> None:
    for number in range(1, 6):
        stores.audit.put(an_audit_record(number))
    first = stores.audit.of(a_scope(), SUBJECT, limit=2)
    assert first == [an_audit_record(5), an_audit_record(4)]
    then = stores.audit.of(a_scope(), SUBJECT, limit=9, before=first[-1].id)
    assert then == [an_audit_record(number) for number in (3, 2, 1)]


def test_a_tenant_a_mode_and_a_subject_see_only_their_own(stores: Stores) -> None:
    record = an_audit_record()
    others = [
        replace(record, scope=a_scope("other")),
        replace(record, scope=a_scope(mode=Mode.TEST)),
        replace(record, subject="key_1"),
    ]
    for each in (record, *others):
        stores.audit.put(each)
    assert stores.audit.of(a_scope(), SUBJECT, limit=9) == [record]
    assert stores.audit.of(a_scope("other"), SUBJECT, limit=9) == [others[0]]
    assert stores.audit.of(a_scope(), "key_1", limit=9) == [others[2]]
