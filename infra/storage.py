"""What Hookkeeper remembers: seven tables, the archive of every event, and the key that seals secrets.

Every table key begins `<tenant>#<mode>#`, but in Access and in the sparse `due` indexes, which only the
sweep's role may query.
"""

from collections.abc import Iterable

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.config import ARCHIVE_DAYS, StageConfig
from infra.function import Function, acknowledge

READ = ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query")
WRITE = (
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:BatchWriteItem",
    "dynamodb:ConditionCheckItem",
)
PUT = ("dynamodb:PutItem",)
QUERY = ("dynamodb:Query",)

_LISTS = dynamodb.GlobalSecondaryIndexPropsV2(
    index_name="lists",
    partition_key=dynamodb.Attribute(name="list_pk", type=dynamodb.AttributeType.STRING),
    sort_key=dynamodb.Attribute(name="list_sk", type=dynamodb.AttributeType.STRING),
    projection_type=dynamodb.ProjectionType.KEYS_ONLY,
)
_DUE = dynamodb.GlobalSecondaryIndexPropsV2(
    index_name="due",
    partition_key=dynamodb.Attribute(name="due_pk", type=dynamodb.AttributeType.STRING),
    sort_key=dynamodb.Attribute(name="due_at", type=dynamodb.AttributeType.NUMBER),
    projection_type=dynamodb.ProjectionType.KEYS_ONLY,
)


class Table(dynamodb.TableV2):
    """A table on demand, recoverable to any second, whose grants are single actions."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        keep: bool,
        indexes: Iterable[dynamodb.GlobalSecondaryIndexPropsV2] = (),
        streamed: bool = False,
    ) -> None:
        super().__init__(
            scope,
            id_,
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing=dynamodb.Billing.on_demand(),
            global_secondary_indexes=list(indexes),
            dynamo_stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES if streamed else None,
            time_to_live_attribute="ttl",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=keep,
            removal_policy=cdk.RemovalPolicy.RETAIN if keep else cdk.RemovalPolicy.DESTROY,
        )

    def allow(self, function: Function, *actions: str) -> None:
        """Let the function do these item actions on the table itself, not on its indexes."""
        function.may(*actions, on=self.table_arn)

    def allow_index(self, function: Function, index: str) -> None:
        """Let the function query one index."""
        function.may(*QUERY, on=self.index_arn(index))

    def allow_stream(self, function: Function) -> None:
        """Let the function read the table's stream."""
        function.may(
            "dynamodb:DescribeStream",
            "dynamodb:GetRecords",
            "dynamodb:GetShardIterator",
            "dynamodb:ListStreams",
            on=self.stream_arn,
        )

    @property
    def stream_arn(self) -> str:
        """Raises ValueError for a table without a stream."""
        if self.table_stream_arn is None:
            raise ValueError(f"{self.node.path} has no stream")
        return self.table_stream_arn

    def index_arn(self, index: str) -> str:
        return f"{self.table_arn}/index/{index}"


class Storage(Construct):
    """Tables, archive and key."""

    def __init__(self, scope: Construct, id_: str, *, config: StageConfig) -> None:
        super().__init__(scope, id_)
        keep = config.keep_data
        self.subscriptions = Table(self, "Subscriptions", keep=keep, indexes=[_LISTS, _DUE])
        self.deliveries = Table(self, "Deliveries", keep=keep, indexes=[_DUE])
        self.events = Table(self, "Events", keep=keep)
        self.secrets = Table(self, "Secrets", keep=keep)
        self.access = Table(self, "Access", keep=keep, indexes=[_LISTS])
        self.audit = Table(self, "Audit", keep=keep, streamed=True)
        self.notices = Table(self, "Notices", keep=keep, indexes=[_DUE], streamed=True)
        self.archive = _archive(self, config)
        self.key = kms.Key(
            self,
            "Key",
            description="Wraps each tenant's data key, which seals its signing secrets",
            enable_key_rotation=True,
            removal_policy=cdk.RemovalPolicy.RETAIN if keep else cdk.RemovalPolicy.DESTROY,
        )

    @property
    def tables(self) -> dict[str, Table]:
        """Every table by the name that the outputs give it."""
        return {
            "Subscriptions": self.subscriptions,
            "Deliveries": self.deliveries,
            "Events": self.events,
            "Secrets": self.secrets,
            "Access": self.access,
            "Audit": self.audit,
            "Notices": self.notices,
        }

    def allow_archive(self, function: Function, action: str) -> None:
        """Let the function do `s3:GetObject` or `s3:PutObject` on the events in the archive."""
        function.may(action, on=self.archive.arn_for_objects("events/*"))
        bucket = cdk.Stack.of(self).resolve(self.archive.bucket_name)["Ref"]
        acknowledge(
            function.execution_role,
            {f"AwsSolutions-IAM5[Resource::<{bucket}.Arn>/events/*]": "Objects are named by date and batch."},
        )


def allow_transitions(function: Function, storage: Storage) -> None:
    """What a change of status writes, in one transaction: subscription, audit record, notice."""
    storage.subscriptions.allow(function, *READ, *WRITE)
    storage.audit.allow(function, *PUT)
    storage.notices.allow(function, *READ, *PUT)


def allow_fuse(function: Function, storage: Storage) -> None:
    """The one item of the Access table that all suspensions pass by; no tenant and no key beside it."""
    _allow_leading(function, ("dynamodb:GetItem", "dynamodb:UpdateItem"), storage.access.table_arn, "fuse")


def allow_count(function: Function, storage: Storage) -> None:
    """Which tenants there are, and their subscriptions: what the fuse's share is counted by."""
    _allow_leading(function, QUERY, storage.access.index_arn("lists"), "tenants")
    _allow_leading(function, ("dynamodb:BatchGetItem",), storage.access.table_arn, "tenant#*")
    storage.subscriptions.allow_index(function, "lists")


def _allow_leading(function: Function, actions: tuple[str, ...], arn: str, leading: str) -> None:
    """Let the function do these item actions where every key it names begins so."""
    function.add_to_role_policy(
        iam.PolicyStatement(
            actions=list(actions),
            resources=[arn],
            conditions={
                "ForAllValues:StringLike": {"dynamodb:LeadingKeys": [leading]},
                "Null": {"dynamodb:LeadingKeys": "false"},
            },
        )
    )


def tenant_policy(storage: Storage) -> list[iam.PolicyStatement]:
    """Item actions on the tables of tenants, for a session tagged with a tenant and a mode.

    Only items whose key begins with that tenant and mode, so a query that forgets the tenant is refused,
    and so is a call that names no key at all (SPEC §4).
    """
    own = {
        "ForAllValues:StringLike": {
            "dynamodb:LeadingKeys": ["${aws:PrincipalTag/tenant}#${aws:PrincipalTag/mode}#*"]
        },
        "Null": {"dynamodb:LeadingKeys": "false"},
    }
    grants: list[tuple[tuple[str, ...], list[str]]] = [
        (
            READ + WRITE,
            [
                table.table_arn
                for table in (storage.subscriptions, storage.deliveries, storage.events, storage.secrets)
            ],
        ),
        (QUERY, [storage.subscriptions.index_arn("lists")]),
        (PUT + QUERY, [storage.audit.table_arn]),
        (READ + PUT, [storage.notices.table_arn]),
    ]
    return [
        iam.PolicyStatement(actions=list(actions), resources=resources, conditions=own)
        for actions, resources in grants
    ]


def _archive(scope: Construct, config: StageConfig) -> s3.Bucket:
    bucket = s3.Bucket(
        scope,
        "Archive",
        encryption=s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        lifecycle_rules=[
            s3.LifecycleRule(
                prefix="events/",
                expiration=cdk.Duration.days(ARCHIVE_DAYS),
                abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
            )
        ],
        # A bucket with objects cannot be deleted; without the stack it empties itself in those days.
        removal_policy=cdk.RemovalPolicy.DESTROY if config.embedded else cdk.RemovalPolicy.RETAIN,
    )
    acknowledge(bucket, {"AwsSolutions-S1": "Only Hookkeeper's own roles reach it; logs would cost more."})
    return bucket
