"""Subscriptions are counted by status over all tenants and both modes, and never without end."""

import pytest
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import Mode
from hookkeeper.usecases import count_statuses as counting
from hookkeeper.usecases.count_statuses import count_statuses

from tests.builders import (
    a_key,
    a_pending_subscription,
    a_scope,
    a_subscription,
    a_suspended_subscription,
    a_tenant,
)
from tests.core import Core
from tests.fakes import FakeAccess


@pytest.fixture
def core() -> Core:
    core = Core()
    for tenant in ("acme", "bolt"):
        FakeAccess(core.world).create_tenant(a_tenant(tenant))
    return core


def counted(core: Core) -> dict[Status, int]:
    return dict(count_statuses(access=FakeAccess(core.world), subscriptions=core.subscriptions))


def test_every_status_is_counted_over_tenants_and_modes_and_absent_ones_are_zero(core: Core) -> None:
    core.subscribe(a_subscription(key=a_key(1)))
    core.subscribe(a_subscription(key=a_key(2, a_scope("acme", Mode.TEST))))
    core.subscribe(a_subscription(key=a_key(3, a_scope("bolt"))))
    core.subscribe(a_suspended_subscription(key=a_key(4)))
    core.subscribe(a_pending_subscription(key=a_key(5)))
    assert counted(core) == {Status.ACTIVE: 3, Status.SUSPENDED: 1, Status.PENDING: 1, Status.REVOKED: 0}


def test_all_pages_of_a_tenant_are_read_up_to_a_number(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "PAGE", 2)
    for number in range(1, 8):
        core.subscribe(a_subscription(key=a_key(number)))
    assert counted(core)[Status.ACTIVE] == 7
    monkeypatch.setattr(counting, "MOST_PAGES", 2)
    assert counted(core)[Status.ACTIVE] == 4
