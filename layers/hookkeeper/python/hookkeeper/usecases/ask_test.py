"""Ask for a test event to be sent: `contact` sends it."""

from hookkeeper.domain.errors import IllegalTransitionError, InvalidInputError, NotFoundError
from hookkeeper.domain.event import checked_event_type
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import Contacts, Subscriptions
from hookkeeper.usecases.send_test import TESTABLE

MAX_DATA_BYTES = 64 * 1024


def ask_test(
    key: SubscriptionKey, *, event_type: str, data: str, subscriptions: Subscriptions, contacts: Contacts
) -> None:
    """Queue it; `data` is JSON text. Raises NotFoundError, InvalidInputError, IllegalTransitionError."""
    checked_event_type(event_type, pointer="/event_type")
    if len(data.encode()) > MAX_DATA_BYTES:
        raise InvalidInputError(f"at most {MAX_DATA_BYTES} bytes", code="too_large", pointer="/data")
    subscription = subscriptions.get(key)
    if subscription is None:
        raise NotFoundError("subscription", key.subscription_id)
    if subscription.status not in TESTABLE:
        raise IllegalTransitionError(
            subscription.id,
            str(subscription.status),
            "only active and suspended subscriptions can be tested",
        )
    contacts.test(key, event_type=event_type, data=data)
