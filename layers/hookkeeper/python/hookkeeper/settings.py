"""What each function is told by its environment: written by infra, read by the handler, one class for both.

`environment()` gives what `load()` reads, so the two sides agree by construction. Clients, regions and
endpoint URLs are boto3's own affair and are not repeated here.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict

_PREFIX = "HOOKKEEPER_"


def _split(value: Any) -> Any:
    return tuple(filter(None, value.split(","))) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Several words in one variable, parted by commas."""


class Settings(BaseModel):
    """What every function knows: where it runs, and how much it says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: str
    log_level: str = "INFO"

    @classmethod
    def load(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Read `HOOKKEEPER_<FIELD>` of each field. Raises pydantic's ValidationError where one is missing."""
        return cls.model_validate(
            {name: environ[_variable(name)] for name in cls.model_fields if _variable(name) in environ}
        )

    def environment(self) -> dict[str, str]:
        """The variables from which `load()` gives these settings again."""
        return {
            _variable(name): ",".join(value) if isinstance(value, tuple) else str(value)
            for name, value in self
            if value is not None
        }


def _variable(field: str) -> str:
    return f"{_PREFIX}{field.upper()}"


class _RuntimeConfigured(Settings):
    """Reads the runtime configuration from AppConfig: ids of application, environment and profile."""

    appconfig_application: str
    appconfig_environment: str
    appconfig_profile: str


class _Egress(Settings):
    """May resolve or reach a customer's endpoint.

    `allowed_private_cidrs` and `allowed_hosts` are empty but on a local stage; `own_hosts` are refused as
    endpoints.
    """

    allowed_private_cidrs: Names = ()
    allowed_hosts: Names = ()
    own_hosts: Names = ()


class _Sending(_Egress):
    """Speaks TLS to endpoints; `extra_ca_file` is a PEM file trusted besides the public authorities."""

    extra_ca_file: str | None = None


class _Timed(Settings):
    """Judges outages."""

    margin_seconds: int
    """The outage margin: at least one fan_out, the routing cache and one batch of deliver (SPEC §9)."""

    @property
    def margin(self) -> timedelta:
        return timedelta(seconds=self.margin_seconds)


class AuthorizerSettings(Settings):
    """authorizer: who calls."""

    access_table: str


class ApiSettings(_RuntimeConfigured, _Egress, _Timed):
    """api: the customers' and operators' HTTPS API."""

    subscriptions_table: str
    deliveries_table: str
    events_table: str
    secrets_table: str
    access_table: str
    audit_table: str
    notices_table: str
    tenant_role_arn: str
    """Assumed with the session tags `tenant` and `mode` for work on a tenant's items."""
    events_queue_url: str
    deliveries_queue_url: str
    contacts_queue_url: str
    state_machine_arn: str
    recover_function: str
    """Asked for events' bytes, which the API's own role may not read."""
    kms_key_id: str
    rest_api_id: str
    usage_plans: Names
    """The names of the stage's plans, by which tenants are throttled."""
    api_url: str
    console_url: str


class ConsoleSettings(_RuntimeConfigured, _Timed):
    """console: the pages of owners and operators. `allowed_hosts` may be challenged without limit."""

    subscriptions_table: str
    deliveries_table: str
    events_table: str
    secrets_table: str
    access_table: str
    audit_table: str
    notices_table: str
    tenant_role_arn: str
    deliveries_queue_url: str
    contacts_queue_url: str
    dead_letter_queues: Names
    """Each `name|URL|URL of its lane`; without the last where no lane put its messages there."""
    state_machine_arn: str
    recover_function: str
    """Reads events' bytes from the archive for it."""
    kms_key_id: str
    console_url: str
    allowed_hosts: Names = ()


class FanOutSettings(Settings):
    """fan_out: archive, route, enqueue; of the Access table it reads the catalogue of event types alone."""

    access_table: str
    subscriptions_table: str
    events_table: str
    archive_bucket: str
    events_queue_url: str
    deliveries_queue_url: str
    rejected_queue_url: str


class DeliverSettings(_RuntimeConfigured, _Sending, _Timed):
    """deliver: the attempts, live and backfill."""

    subscriptions_table: str
    deliveries_table: str
    secrets_table: str
    access_table: str
    audit_table: str
    notices_table: str
    archive_bucket: str
    deliveries_queue_url: str
    backfill_queue_url: str
    kms_key_id: str


class ContactSettings(_Sending, _Timed):
    """contact: challenge, probe, test event."""

    subscriptions_table: str
    secrets_table: str
    audit_table: str
    notices_table: str
    kms_key_id: str


class RecoverSettings(_RuntimeConfigured, _Timed):
    """recover: the tasks of the recovery state machine, and what ended without them."""

    subscriptions_table: str
    deliveries_table: str
    events_table: str
    audit_table: str
    notices_table: str
    archive_bucket: str
    backfill_queue_url: str
    state_machine_arn: str


class NotifySettings(_RuntimeConfigured):
    """notify: mails to owners, events to the operator bus."""

    notices_table: str
    bus_name: str
    sender_address: str
    configuration_set: str
    console_url: str


class SweepSettings(_RuntimeConfigured, _Timed):
    """sweep: every minute, whatever is due."""

    subscriptions_table: str
    deliveries_table: str
    events_table: str
    access_table: str
    audit_table: str
    notices_table: str
    archive_bucket: str
    deliveries_queue_url: str
    backfill_queue_url: str
    notices_queue_url: str
    dead_letter_queues: Names = ()
    """Looked into each minute; each as the console is told it."""
    state_machine_arn: str


class ValidateConfigSettings(Settings):
    """validate_config: asked by AppConfig before it takes a document."""


class WatchAuditSettings(Settings):
    """watch_audit: told by the audit's stream of records that were changed or removed."""
