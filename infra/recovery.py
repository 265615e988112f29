"""Re-enablement and backfill: the `recovery` state machine, `recover` (its tasks) and the minute's `sweep`.

    Lock ─► probe ─► Probe ─ passed ─► Activate ─► Slice ─┬─ wait ─► Wait ─► Slice
         ├► activate ───────────────────┘          ▲      ├─ continue ─► Continue (a new execution)
         └► slice ─────────────────────────────────┘      └─ end
            Probe ─ not passed ─► ProbeFailed

The state is one flat JSON object; every task gets it whole, with `action` and `execution` added, and
returns it whole. Any task that fails for good ends in Failed.
"""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct
from hookkeeper.settings import RecoverSettings, SweepSettings

from infra.function import Function, Shared, acknowledge
from infra.queues import Queues
from infra.runtime_config import RuntimeConfig
from infra.storage import READ, WRITE, Storage, allow_count, allow_fuse, allow_transitions

_PASSING_ERRORS = ["Lambda.TooManyRequestsException", "Lambda.Unknown", "States.TaskFailed"]


class Recovery(Construct):
    """State machine → recover, contact; its failures → recover; every minute → sweep."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        shared: Shared,
        storage: Storage,
        queues: Queues,
        runtime: RuntimeConfig,
        contact: Function,
    ) -> None:
        super().__init__(scope, id_)
        self.recover = self._recover(shared, storage, queues, runtime)
        self.machine = self._machine(contact)
        self._end_what_broke(queues)
        self.sweep = self._sweep(shared, storage, queues, runtime)

    def _recover(self, shared: Shared, storage: Storage, queues: Queues, runtime: RuntimeConfig) -> Function:
        recover = Function(
            self,
            "recover",
            shared=shared,
            size=shared.config.recover,
            description="The tasks of a recovery: lock, activate, slice, end",
            settings=RecoverSettings(
                stage=shared.config.stage,
                log_level=shared.config.log_level,
                subscriptions_table=storage.subscriptions.table_name,
                deliveries_table=storage.deliveries.table_name,
                events_table=storage.events.table_name,
                audit_table=storage.audit.table_name,
                notices_table=storage.notices.table_name,
                archive_bucket=storage.archive.bucket_name,
                backfill_queue_url=queues.backfill.queue.queue_url,
                state_machine_arn=state_machine_arn(self),
                margin_seconds=shared.config.margin_seconds,
                appconfig_application=runtime.application,
                appconfig_environment=runtime.environment,
                appconfig_profile=runtime.profile,
            ),
        )
        allow_transitions(recover, storage)
        storage.deliveries.allow(recover, *READ, *WRITE)
        storage.events.allow(recover, *READ)
        storage.allow_archive(recover, "s3:GetObject")
        queues.backfill.allow_send(recover)
        recover.may("states:StartExecution", on=state_machine_arn(self))
        runtime.allow_read(recover)
        return recover

    def _machine(self, contact: Function) -> sfn.StateMachine:
        role = iam.Role(self, "MachineRole", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"],
                resources=[self.recover.function_arn, contact.function_arn],
            )
        )
        machine = sfn.StateMachine(
            self,
            "Machine",
            state_machine_name=_machine_name(),
            definition_body=sfn.DefinitionBody.from_chainable(self._definition(contact)),
            query_language=sfn.QueryLanguage.JSONATA,
            role=role.without_policy_updates(),
            comment="Start by hand with tenant, mode and subscription_id to re-enable a subscription",
        )
        acknowledge(
            machine,
            {
                "AwsSolutions-SF1": "Standard keeps its history for 90 days; a log needs a grant on *.",
                "AwsSolutions-SF2": "X-Ray is off by default, for its cost.",
            },
        )
        return machine

    def _definition(self, contact: Function) -> sfn.IChainable:
        done = sfn.Succeed(self, "Done")
        failed = self._task("Failed", self.recover, "failed")
        failed.next(sfn.Fail(self, "Broken", cause="A task failed for good", error="RecoveryFailed"))

        def task(id_: str, function: Function, action: str) -> tasks.LambdaInvoke:
            state = self._task(id_, function, action)
            state.add_catch(
                failed,
                errors=["States.ALL"],
                outputs="{% $merge([$states.input, {'error': $states.errorOutput.Error}]) %}",
            )
            return state

        lock = task("Lock", self.recover, "lock")
        probe = task("Probe", contact, "probe")
        probe_failed = task("ProbeFailed", self.recover, "probe_failed")
        activate = task("Activate", self.recover, "activate")
        slice_ = task("Slice", self.recover, "slice")
        wait = sfn.Wait.jsonata(self, "Wait", time=sfn.WaitTime.seconds("{% $states.input.wait_seconds %}"))
        go_on = task("Continue", self.recover, "continue")

        lock.next(
            sfn.Choice.jsonata(self, "What first?")
            .when(_next_is("probe"), probe)
            .when(_next_is("activate"), activate)
            .when(_next_is("slice"), slice_)
            .otherwise(done)
        )
        probe.next(
            sfn.Choice.jsonata(self, "Passed?")
            .when(sfn.Condition.jsonata("{% $states.input.passed = true %}"), activate)
            .otherwise(probe_failed)
        )
        probe_failed.next(done)
        activate.next(sfn.Choice.jsonata(self, "Activated?").when(_next_is("slice"), slice_).otherwise(done))
        slice_.next(
            sfn.Choice.jsonata(self, "What next?")
            .when(_next_is("wait"), wait)
            .when(_next_is("continue"), go_on)
            .otherwise(done)
        )
        wait.next(slice_)
        go_on.next(done)
        return lock

    def _task(self, id_: str, function: Function, action: str) -> tasks.LambdaInvoke:
        task = tasks.LambdaInvoke.jsonata(
            self,
            id_,
            lambda_function=function,
            payload=sfn.TaskInput.from_text(
                f"{{% $merge([$states.input, {{'action': '{action}', "
                "'execution': $states.context.Execution.Id, "
                "'retried': $states.context.State.RetryCount}]) %}"
            ),
            outputs="{% $states.result.Payload %}",
            retry_on_service_exceptions=True,
        )
        task.add_retry(
            errors=_PASSING_ERRORS,
            interval=cdk.Duration.seconds(2),
            backoff_rate=2,
            max_attempts=6,
            max_delay=cdk.Duration.minutes(1),
        )
        return task

    def _end_what_broke(self, queues: Queues) -> None:
        """An execution that ended without its last task must not keep the subscription's lock.

        Should the function fail at that, Lambda tries twice more; then the sweep finds the lock by its lease.
        """
        events.Rule(
            self,
            "Ended",
            description="A recovery that failed, was aborted or timed out is released or resumed",
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={
                    "stateMachineArn": [state_machine_arn(self)],
                    "status": ["FAILED", "ABORTED", "TIMED_OUT"],
                },
            ),
            targets=[
                targets.LambdaFunction(
                    self.recover,
                    event=events.RuleTargetInput.from_object(
                        {
                            "action": "ended",
                            "execution": events.EventField.from_path("$.detail.executionArn"),
                            "status": events.EventField.from_path("$.detail.status"),
                            "input": events.EventField.from_path("$.detail.input"),
                        }
                    ),
                    dead_letter_queue=queues.unended,
                    max_event_age=cdk.Duration.hours(24),
                    retry_attempts=185,
                )
            ],
        )

    def _sweep(self, shared: Shared, storage: Storage, queues: Queues, runtime: RuntimeConfig) -> Function:
        sweep = Function(
            self,
            "sweep",
            shared=shared,
            size=shared.config.sweep,
            description="Every minute: sends what is due, wakes circuits, ends what crashed",
            settings=SweepSettings(
                stage=shared.config.stage,
                log_level=shared.config.log_level,
                subscriptions_table=storage.subscriptions.table_name,
                deliveries_table=storage.deliveries.table_name,
                events_table=storage.events.table_name,
                access_table=storage.access.table_name,
                audit_table=storage.audit.table_name,
                notices_table=storage.notices.table_name,
                archive_bucket=storage.archive.bucket_name,
                deliveries_queue_url=queues.deliveries.queue.queue_url,
                backfill_queue_url=queues.backfill.queue.queue_url,
                notices_queue_url=queues.notices.queue.queue_url,
                dead_letter_queues=queues.dead_words,
                state_machine_arn=state_machine_arn(self),
                margin_seconds=shared.config.margin_seconds,
                appconfig_application=runtime.application,
                appconfig_environment=runtime.environment,
                appconfig_profile=runtime.profile,
            ),
        )
        sweep.may("sqs:GetQueueAttributes", on=[queue.queue_arn for queue in queues.dead.values()])
        allow_transitions(sweep, storage)
        storage.deliveries.allow(sweep, *READ, *WRITE)
        allow_fuse(sweep, storage)
        allow_count(sweep, storage)
        storage.events.allow(sweep, *READ)
        for table in (storage.subscriptions, storage.deliveries, storage.notices):
            table.allow_index(sweep, "due")
        storage.allow_archive(sweep, "s3:GetObject")
        for lane in (queues.deliveries, queues.backfill, queues.notices):
            lane.allow_send(sweep)
        sweep.may("states:StartExecution", on=state_machine_arn(self))
        runtime.allow_read(sweep)
        events.Rule(
            self,
            "EveryMinute",
            description="The sweep's clock; a minute that is missed is made good by the next",
            schedule=events.Schedule.rate(cdk.Duration.minutes(1)),
            targets=[targets.LambdaFunction(sweep, retry_attempts=0)],
        )
        return sweep


def state_machine_arn(scope: Construct) -> str:
    """Known before the machine is: recover starts the very machine that invokes it."""
    return cdk.Stack.of(scope).format_arn(
        service="states",
        resource="stateMachine",
        resource_name=_machine_name(),
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )


def _machine_name() -> str:
    return f"{cdk.Aws.STACK_NAME}-recovery"


def _next_is(step: str) -> sfn.Condition:
    return sfn.Condition.jsonata(f"{{% $states.input.next = '{step}' %}}")
