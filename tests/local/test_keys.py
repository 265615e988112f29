"""The first operator key is one that the product itself would accept."""

from hookkeeper.domain.access import KeyKind, Right, key_hash, well_formed

from infra.local.keys import create_operator_key
from tests.builders import NOW
from tests.fakes import FakeAccess, World


def test_the_first_operator_key_is_found_by_its_hash_and_may_operate() -> None:
    access = FakeAccess(World())
    text = create_operator_key(access, key_id="key_1", now=NOW, entropy=bytes(range(32)))
    assert well_formed(text)
    stored = access.key_by_hash(key_hash(text))
    assert stored is not None
    assert (stored.kind, stored.rights) == (KeyKind.OPERATOR, frozenset({Right.OPERATE}))
    assert stored.usable(NOW)
    assert text not in repr(stored)
