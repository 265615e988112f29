"""Whose data a call may touch: a tenant and one of its two modes, and the ids that are allowed in keys."""

import re
from dataclasses import dataclass
from enum import StrEnum

from hookkeeper.domain.errors import InvalidInputError

_GIVEN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class Mode(StrEnum):
    """A tenant's two sides, which never meet."""

    LIVE = "live"
    TEST = "test"


def checked_id(value: str, *, field: str) -> str:
    """`value`, if it may stand in a key: 1–64 of A-Z a-z 0-9 _ - (SPEC §3).

    Raises InvalidInputError (`invalid_id`) otherwise.
    """
    if not _GIVEN_ID.fullmatch(value):
        raise InvalidInputError(
            f"{field} must be 1 to 64 characters of A-Z a-z 0-9 _ -", code="invalid_id", pointer=f"/{field}"
        )
    return value


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """One tenant in one mode: every repository call names it, so no query can forget it."""

    tenant_id: str
    mode: Mode

    def __post_init__(self) -> None:
        checked_id(self.tenant_id, field="tenant_id")
        Mode(self.mode)


@dataclass(frozen=True, slots=True, order=True)
class SubscriptionKey:
    """A subscription within its scope."""

    scope: Scope
    subscription_id: str


@dataclass(frozen=True, slots=True, order=True)
class DeliveryKey:
    """A delivery: one event owed to one subscription."""

    subscription: SubscriptionKey
    event_id: str

    @property
    def scope(self) -> Scope:
        return self.subscription.scope

    @property
    def delivery_id(self) -> str:
        """`dlv_<subscription suffix>.<event id>`: made of the two ids, and can be taken apart.

        Neither part holds a dot.
        """
        return f"dlv_{self.subscription.subscription_id.removeprefix('sub_')}.{self.event_id}"


def parse_delivery_id(scope: Scope, delivery_id: str) -> DeliveryKey:
    """The key behind a delivery's id. Raises InvalidInputError (`invalid_id`)."""
    suffix, dot, event_id = delivery_id.removeprefix("dlv_").partition(".")
    if not delivery_id.startswith("dlv_") or not dot:
        raise InvalidInputError(f"{delivery_id!r} is no delivery id", code="invalid_id")
    checked_id(suffix, field="delivery_id")
    checked_id(event_id, field="delivery_id")
    return DeliveryKey(SubscriptionKey(scope, f"sub_{suffix}"), event_id)
