"""What the console reaches: the same ports as the API, under credentials of one tenant at a time."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import boto3
from hookkeeper.adapters.appconfig_runtime import AppConfigRuntime
from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.adapters.dynamodb_audit import DynamoDBAudit
from hookkeeper.adapters.dynamodb_consents import DynamoDBConsents
from hookkeeper.adapters.dynamodb_events import DynamoDBEvents
from hookkeeper.adapters.dynamodb_fuse import DynamoDBFuse
from hookkeeper.adapters.dynamodb_health import DynamoDBHealth, DynamoDBRecoveries
from hookkeeper.adapters.dynamodb_ledger import DynamoDBLedger
from hookkeeper.adapters.dynamodb_notices import DynamoDBNotices
from hookkeeper.adapters.dynamodb_rates import DynamoDBRates
from hookkeeper.adapters.dynamodb_sessions import DynamoDBSessions
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.adapters.kms_secrets import KmsSecrets
from hookkeeper.adapters.lambda_event_bodies import LambdaEventBodies
from hookkeeper.adapters.s3_archive import S3Archive
from hookkeeper.adapters.sfn_workflow import SfnWorkflow
from hookkeeper.adapters.sqs_dead_letters import DeadLetterQueue, SqsDeadLetterQueues
from hookkeeper.adapters.sqs_lanes import SqsLanes
from hookkeeper.adapters.sqs_queues import SqsContacts
from hookkeeper.adapters.sts_tenant_session import TenantSession
from hookkeeper.domain.config import Margins
from hookkeeper.domain.tenancy import Scope
from hookkeeper.ports import (
    Access,
    Archive,
    Audit,
    Consents,
    Contacts,
    DeadLetterQueues,
    EventBodies,
    EventItems,
    Fuse,
    HealthStore,
    Ids,
    Lanes,
    Ledger,
    Notices,
    Rates,
    Recoveries,
    RuntimeConfigs,
    Secrets,
    Sessions,
    Subscriptions,
    Workflow,
)
from hookkeeper.settings import ConsoleSettings
from hookkeeper.usecases.challenge_rate import HostRules


class Tenants(Protocol):
    """Whose items the clients of this container may touch from here on."""

    def enter(self, scope: Scope) -> None: ...
    def leave(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """All that the console reaches. `entropy` gives so many random bytes."""

    subscriptions: Subscriptions
    consents: Consents
    health: HealthStore
    recoveries: Recoveries
    workflow: Workflow
    ledger: Ledger
    lanes: Lanes
    archive: Archive
    events: EventItems
    event_bodies: EventBodies
    secrets: Secrets
    contacts: Contacts
    audit: Audit
    notices: Notices
    access: Access
    sessions: Sessions
    dead_letters: DeadLetterQueues
    fuse: Fuse
    configs: RuntimeConfigs
    ids: Ids
    rates: Rates
    tenants: Tenants
    entropy: Callable[[int], bytes]
    host_rules: HostRules
    margins: Margins
    console_url: str


def reach_of(settings: ConsoleSettings) -> Reach:
    """Built once per container. Nothing is called yet, and no tenant's table is in reach before `enter`."""
    own, sqs = boto3.client("dynamodb"), boto3.client("sqs")
    tenants = TenantSession(boto3.client("sts"), role_arn=settings.tenant_role_arn)
    theirs = tenants.client("dynamodb")
    return Reach(
        subscriptions=DynamoDBSubscriptions(
            theirs,
            subscriptions_table=settings.subscriptions_table,
            audit_table=settings.audit_table,
            notices_table=settings.notices_table,
        ),
        consents=DynamoDBConsents(
            theirs,
            subscriptions_table=settings.subscriptions_table,
            audit_table=settings.audit_table,
        ),
        health=DynamoDBHealth(
            theirs,
            subscriptions_table=settings.subscriptions_table,
            notices_table=settings.notices_table,
        ),
        recoveries=DynamoDBRecoveries(theirs, subscriptions_table=settings.subscriptions_table),
        ledger=DynamoDBLedger(
            theirs,
            subscriptions_table=settings.subscriptions_table,
            deliveries_table=settings.deliveries_table,
        ),
        lanes=SqsLanes(sqs, deliveries_queue_url=settings.deliveries_queue_url),
        events=DynamoDBEvents(theirs, events_table=settings.events_table),
        # The index alone: the bytes in the bucket are not the console's to read.
        archive=S3Archive(None, theirs, bucket="", events_table=settings.events_table),
        event_bodies=LambdaEventBodies(boto3.client("lambda"), function_name=settings.recover_function),
        secrets=KmsSecrets(
            theirs,
            boto3.client("kms"),
            secrets_table=settings.secrets_table,
            kms_key_id=settings.kms_key_id,
        ),
        audit=DynamoDBAudit(theirs, audit_table=settings.audit_table),
        notices=DynamoDBNotices(theirs, notices_table=settings.notices_table),
        access=DynamoDBAccess(own, access_table=settings.access_table),
        sessions=DynamoDBSessions(own, access_table=settings.access_table),
        rates=DynamoDBRates(own, access_table=settings.access_table),
        fuse=DynamoDBFuse(own, access_table=settings.access_table),
        dead_letters=SqsDeadLetterQueues(sqs, queues=dead_letter_queues(settings)),
        contacts=SqsContacts(sqs, queue_url=settings.contacts_queue_url),
        workflow=SfnWorkflow(boto3.client("stepfunctions"), state_machine_arn=settings.state_machine_arn),
        configs=AppConfigRuntime.of(settings),
        ids=TypeIds(),
        tenants=tenants,
        entropy=os.urandom,
        host_rules=HostRules(allowed_hosts=frozenset(settings.allowed_hosts)),
        margins=Margins(outage=settings.margin),
        console_url=settings.console_url,
    )


def dead_letter_queues(settings: ConsoleSettings) -> dict[str, DeadLetterQueue]:
    """By name, each with the lane that its messages came from, if SQS put them there."""
    queues = {}
    for told in settings.dead_letter_queues:
        name, url, lane_url = told.split("|")
        queues[name] = DeadLetterQueue(url, lane_url or None)
    return queues
