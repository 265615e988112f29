"""What the API reaches on AWS: clients that work as the function, and clients that work as one tenant."""

import os

import boto3
from calls import Reach
from hookkeeper.adapters.apigateway_keys import ApiGatewayKeys
from hookkeeper.adapters.appconfig_runtime import AppConfigRuntime
from hookkeeper.adapters.dynamodb_access import DynamoDBAccess
from hookkeeper.adapters.dynamodb_audit import DynamoDBAudit
from hookkeeper.adapters.dynamodb_catalogue import DynamoDBCatalogue
from hookkeeper.adapters.dynamodb_consents import DynamoDBConsents
from hookkeeper.adapters.dynamodb_cursor_key import DynamoDBCursorKey
from hookkeeper.adapters.dynamodb_events import DynamoDBEvents
from hookkeeper.adapters.dynamodb_fuse import DynamoDBFuse
from hookkeeper.adapters.dynamodb_health import DynamoDBHealth, DynamoDBRecoveries
from hookkeeper.adapters.dynamodb_idempotency import DynamoDBIdempotency
from hookkeeper.adapters.dynamodb_ledger import DynamoDBLedger
from hookkeeper.adapters.dynamodb_rates import DynamoDBRates
from hookkeeper.adapters.dynamodb_sessions import DynamoDBSessions
from hookkeeper.adapters.dynamodb_subscriptions import DynamoDBSubscriptions
from hookkeeper.adapters.getaddrinfo_hosts import GetaddrinfoHosts
from hookkeeper.adapters.ids import TypeIds
from hookkeeper.adapters.jsonschema_schemas import CatalogueRules, JsonSchemas
from hookkeeper.adapters.kms_secrets import KmsSecrets
from hookkeeper.adapters.lambda_event_bodies import LambdaEventBodies
from hookkeeper.adapters.s3_archive import S3Archive
from hookkeeper.adapters.sfn_workflow import SfnWorkflow
from hookkeeper.adapters.sqs_lanes import SqsLanes
from hookkeeper.adapters.sqs_queues import SqsContacts, SqsEvents
from hookkeeper.adapters.sts_tenant_session import TenantSession
from hookkeeper.domain.config import Margins
from hookkeeper.settings import ApiSettings
from hookkeeper.usecases.challenge_rate import HostRules


def reach_of(settings: ApiSettings) -> Reach:
    """Built once per container. Nothing is called yet, and no tenant's table is in reach before `enter`."""
    own, sqs = boto3.client("dynamodb"), boto3.client("sqs")
    tenants = TenantSession(boto3.client("sts"), role_arn=settings.tenant_role_arn)
    theirs = tenants.client("dynamodb")
    catalogue = DynamoDBCatalogue(own, access_table=settings.access_table)
    return Reach(
        subscriptions=DynamoDBSubscriptions(
            theirs,
            subscriptions_table=settings.subscriptions_table,
            audit_table=settings.audit_table,
            notices_table=settings.notices_table,
        ),
        consents=DynamoDBConsents(
            theirs, subscriptions_table=settings.subscriptions_table, audit_table=settings.audit_table
        ),
        health=DynamoDBHealth(
            theirs,
            subscriptions_table=settings.subscriptions_table,
            notices_table=settings.notices_table,
        ),
        lanes=SqsLanes(sqs, deliveries_queue_url=settings.deliveries_queue_url),
        recoveries=DynamoDBRecoveries(theirs, subscriptions_table=settings.subscriptions_table),
        ledger=DynamoDBLedger(
            theirs,
            subscriptions_table=settings.subscriptions_table,
            deliveries_table=settings.deliveries_table,
        ),
        # The index alone: the bytes in the bucket are not the API's to read.
        archive=S3Archive(None, theirs, bucket="", events_table=settings.events_table),
        events=DynamoDBEvents(theirs, events_table=settings.events_table),
        event_rules=CatalogueRules(catalogue),
        catalogue=catalogue,
        schemas=JsonSchemas(),
        event_bodies=LambdaEventBodies(boto3.client("lambda"), function_name=settings.recover_function),
        secrets=KmsSecrets(
            theirs,
            boto3.client("kms"),
            secrets_table=settings.secrets_table,
            kms_key_id=settings.kms_key_id,
        ),
        audit=DynamoDBAudit(theirs, audit_table=settings.audit_table),
        operator_audit=DynamoDBAudit(own, audit_table=settings.audit_table),
        access=DynamoDBAccess(own, access_table=settings.access_table),
        gateway_keys=ApiGatewayKeys(boto3.client("apigateway"), api_id=settings.rest_api_id),
        usage_plans=settings.usage_plans,
        fuse=DynamoDBFuse(own, access_table=settings.access_table),
        sessions=DynamoDBSessions(own, access_table=settings.access_table),
        idempotency=DynamoDBIdempotency(theirs, table=settings.events_table),
        operator_idempotency=DynamoDBIdempotency(own, table=settings.access_table),
        cursor_key=DynamoDBCursorKey(own, access_table=settings.access_table).get,
        event_queue=SqsEvents(sqs, queue_url=settings.events_queue_url),
        contacts=SqsContacts(sqs, queue_url=settings.contacts_queue_url),
        workflow=SfnWorkflow(boto3.client("stepfunctions"), state_machine_arn=settings.state_machine_arn),
        configs=AppConfigRuntime.of(settings),
        ids=TypeIds(),
        hosts=GetaddrinfoHosts(allowed_private_cidrs=settings.allowed_private_cidrs),
        rates=DynamoDBRates(own, access_table=settings.access_table),
        tenants=tenants,
        entropy=os.urandom,
        host_rules=HostRules(
            own_hosts=frozenset(settings.own_hosts), allowed_hosts=frozenset(settings.allowed_hosts)
        ),
        margins=Margins(outage=settings.margin),
        api_url=settings.api_url,
        console_url=settings.console_url,
    )
