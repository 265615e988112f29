"""A rotation leaves no moment without a signature that its receiver knows."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.domain.errors import ConflictError, IllegalTransitionError, InvalidInputError
from hookkeeper.domain.notice import NoticeKind
from hookkeeper.domain.signature import Secret
from hookkeeper.domain.subscription import Status, Subscription
from hookkeeper.usecases.rotate_secret import overlap_of, rotate_secret

from tests.builders import ACTOR, HOUR, NOW, a_key, a_secret, a_subscription
from tests.fakes import FakeIds, FakeSecrets, FakeSubscriptions, World

MINUTE = timedelta(minutes=1)


def a_world(**changes: Any) -> World:
    world = World()
    world.add(a_subscription(**changes))
    FakeSecrets(world).create(a_key(), a_secret(1), version=1, now=NOW)
    return world


def rotated(world: World, number: int = 2, **changes: Any) -> Subscription:
    ports: dict[str, Any] = {
        "actor": ACTOR,
        "now": NOW,
        "subscriptions": FakeSubscriptions(world),
        "secrets": FakeSecrets(world),
        "ids": FakeIds(world),
    }
    return rotate_secret(a_key(), a_secret(number), **(ports | changes))


def signing(world: World, *, at: Any = NOW) -> list[Secret]:
    return list(FakeSecrets(world).signing(a_key(), world.subscriptions[a_key()].secret_ref, now=at))


def test_t20_both_sign_for_a_day_the_new_one_first_and_each_rotation_begins_its_own_day() -> None:
    world = a_world()
    rotated(world)
    assert signing(world, at=NOW + 24 * HOUR - MINUTE) == [a_secret(2), a_secret(1)]
    assert signing(world, at=NOW + 24 * HOUR + MINUTE) == [a_secret(2)]
    rotated(world, 3, now=NOW + 30 * HOUR)
    assert signing(world, at=NOW + 54 * HOUR - MINUTE) == [a_secret(3), a_secret(2)]


def test_t21_no_overlap_ends_the_old_one_at_once() -> None:
    world = a_world()
    rotated(world, overlap=timedelta())
    assert signing(world) == [a_secret(2)]


def test_the_owner_is_told_once_a_rotation() -> None:
    world = a_world()
    rotated(world)
    rotated(world, 3)
    assert [n.dedupe for n in world.notices_of(NoticeKind.SECRET_ROTATED)] == ["version-2", "version-3"]
    assert [r.action for r in world.audit.values()] == ["subscription.secret_rotated"] * 2
    assert "whsec" not in repr(world.audit) + repr(world.notices)


@pytest.mark.parametrize("call", ["Secrets.create", "Secrets.retire", "Subscriptions.edit"])
@pytest.mark.parametrize("moment", ["before_call", "after_call"])
def test_a_crash_between_any_two_calls_leaves_the_known_secret_signing(call: str, moment: str) -> None:
    world = a_world()

    def crash(name: str) -> None:
        if name == call:
            raise RuntimeError

    setattr(world, moment, crash)
    with pytest.raises(RuntimeError):
        rotated(world)
    world.before_call = world.after_call = None
    assert a_secret(1) in signing(world)


def test_of_two_rotations_at_once_one_stands_and_the_other_is_told() -> None:
    world = a_world()

    def meanwhile(call: str) -> None:
        if call == "Subscriptions.edit":
            world.before_call = None
            rotated(world, 9)

    world.before_call = meanwhile
    with pytest.raises(ConflictError):
        rotated(world)
    assert len(world.notices) == 1


def test_an_edit_meanwhile_does_not_stop_a_rotation() -> None:
    world = a_world()

    def meanwhile(call: str) -> None:
        if call == "Subscriptions.edit":
            world.before_call = None
            stored = world.subscriptions[a_key()]
            world.subscriptions[a_key()] = replace(stored, timeout_seconds=3, version=2)

    world.before_call = meanwhile
    assert rotated(world).timeout_seconds == 3


def test_what_is_revoked_keeps_its_secret() -> None:
    world = a_world(status=Status.REVOKED)
    with pytest.raises(IllegalTransitionError):
        rotated(world)
    assert len(world.secrets) == 1


@pytest.mark.parametrize("hours,good", [(0, True), (24, True), (168, True), (-0.1, False), (168.1, False)])
def test_the_overlap_is_none_to_seven_days(hours: float, *, good: bool) -> None:
    if good:
        assert overlap_of(hours) == timedelta(hours=hours)
    else:
        with pytest.raises(InvalidInputError):
            overlap_of(hours)
