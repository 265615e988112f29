"""The ports that live in the Subscriptions, Audit, Notices and Access tables, over fakes or over DynamoDB."""

import itertools
from dataclasses import dataclass
from typing import Any

from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.adapters.dynamodb_audit import DynamoDBAudit
from hookkeeper.adapters.dynamodb_consents import DynamoDBConsents
from hookkeeper.adapters.dynamodb_health import DynamoDBHealth, DynamoDBRecoveries
from hookkeeper.adapters.dynamodb_notices import DynamoDBNotices
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBRoutes, DynamoDBSubscriptions
from hookkeeper.domain.health import Health
from hookkeeper.domain.subscription import Subscription
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.ports import (
    Access,
    Audit,
    Consents,
    HealthStore,
    Notices,
    Recoveries,
    Routes,
    Standing,
    Subscriptions,
)

from tests.builders import a_health, a_profile, an_audit_record
from tests.contracts.conftest import AT_ONCE, Aws
from tests.fakes import (
    FakeAccess,
    FakeAudit,
    FakeConsents,
    FakeHealthStore,
    FakeNotices,
    FakeRecoveries,
    FakeRoutes,
    FakeSubscriptions,
    World,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """One backend's ports, and short ways to set a scene through them."""

    subscriptions: Subscriptions
    routes: Routes
    health: HealthStore
    recoveries: Recoveries
    notices: Notices
    audit: Audit
    access: Access
    consents: Consents

    def have(self, subscription: Subscription, health: Health | None = None) -> Standing:
        """A subscription as if it had been created so, with the 0th audit record."""
        audit = an_audit_record(0, scope=subscription.scope, subject=subscription.id)
        health = health or a_health(key=subscription.key)
        assert self.subscriptions.create(subscription, a_profile(), health, audit) is None
        return self.standing(subscription.key)

    def standing(self, key: SubscriptionKey) -> Standing:
        standing = self.subscriptions.standing(key)
        assert standing is not None
        return standing

    def routed(self, subscription: Subscription, *event_types: str) -> list[str]:
        """Which of the event types reach the subscription."""
        return [
            event_type
            for event_type in event_types
            if subscription.id
            in self.routes.matching(
                subscription.scope, event_type=event_type, resource_id=subscription.resource_id
            )
        ]

    def told(self, key: SubscriptionKey) -> list[str]:
        return [notice.id for notice in self.notices.of(key, limit=100)]

    def audited(self, subscription: Subscription) -> list[str]:
        """Ids of the audit records, but for the one of `have()`, newest first."""
        records = self.audit.of(subscription.scope, subscription.id, limit=100)
        return [record.id for record in records if int(record.id.removeprefix("aud_")) > 0]


def over_fakes(world: World) -> Stores:
    return Stores(
        subscriptions=FakeSubscriptions(world),
        routes=FakeRoutes(world),
        health=FakeHealthStore(world),
        recoveries=FakeRecoveries(world),
        notices=FakeNotices(world),
        audit=FakeAudit(world),
        access=FakeAccess(world),
        consents=FakeConsents(world),
    )


def over_dynamodb(aws: Aws, client: Any = None) -> Stores:
    """Routes are never taken from the cache: its clock leaps an hour at each look."""
    client = client or aws.client("dynamodb")
    subscriptions, notices, audit = (aws.table(name) for name in ("Subscriptions", "Notices", "Audit"))
    hours = itertools.count(step=3600)
    return Stores(
        subscriptions=DynamoDBSubscriptions(
            client,
            subscriptions_table=subscriptions,
            audit_table=audit,
            notices_table=notices,
            backoff=AT_ONCE,
        ),
        routes=DynamoDBRoutes(client, subscriptions_table=subscriptions, monotonic=lambda: next(hours)),
        health=DynamoDBHealth(
            client, subscriptions_table=subscriptions, notices_table=notices, backoff=AT_ONCE
        ),
        recoveries=DynamoDBRecoveries(client, subscriptions_table=subscriptions, backoff=AT_ONCE),
        notices=DynamoDBNotices(client, notices_table=notices, backoff=AT_ONCE),
        audit=DynamoDBAudit(client, audit_table=audit),
        access=DynamoDBAccess(client, access_table=aws.table("Access"), backoff=AT_ONCE),
        consents=DynamoDBConsents(
            client, subscriptions_table=subscriptions, audit_table=audit, backoff=AT_ONCE
        ),
    )
