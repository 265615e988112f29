"""`hookkeeper subscriptions`: make, see, stop and bring back what a tenant's endpoints ask for."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from hookkeeper.domain.subscription import Status
from rich.table import Table
from rich.text import Text

from infra.cli.client import path
from infra.cli.command import All, Most, Yes, command, json_object, pairs
from infra.cli.recoveries import PATIENCE_POLLS, POLL_SECONDS, newest, wait_for_next, watch
from infra.cli.session import Failure, Session
from infra.cli.show import Rows, ago, at, due, facts, mark, moment, words

app = typer.Typer(help="What endpoints ask for, and how they fare.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="sub_…")]


@command(app, "create")
def create(
    session: Session,
    endpoint_url: Annotated[str, typer.Argument(metavar="URL", help="The endpoint, https.")],
    event_types: Annotated[
        list[str], typer.Option("--type", "-t", help="A type, `type.*` or `*`. Repeatable.")
    ],
    owner_email: Annotated[str, typer.Option("--owner", help="Who is told when the endpoint fails.")],
    resource_id: Annotated[str | None, typer.Option("--resource", help="Only events of this one.")] = None,
    description: Annotated[str | None, typer.Option(help="For people.")] = None,
    policy: Annotated[str | None, typer.Option(help="graded, strict, patient or one of yours.")] = None,
    timeout_seconds: Annotated[int | None, typer.Option("--timeout", help="Seconds, 1 to 30.")] = None,
    headers: Annotated[list[str] | None, typer.Option("--header", help="name=value. Repeatable.")] = None,
    metadata: Annotated[list[str] | None, typer.Option(help="name=value. Repeatable.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it is verified and in force; 1 where that takes a minute.")
    ] = False,
) -> None:
    """Subscribe an endpoint. Its secret is shown this once; the endpoint is sent a challenge to echo."""
    optional = {
        "resource_id": resource_id,
        "description": description,
        "policy": policy,
        "timeout_seconds": timeout_seconds,
        "headers": pairs(headers or (), what="a header"),
        "metadata": pairs(metadata or (), what="metadata"),
    }
    wanted: dict[str, Any] = {
        "endpoint_url": endpoint_url,
        "event_types": event_types,
        "owner_email": owner_email,
    }
    wanted |= {name: value for name, value in optional.items() if value}
    created = session.tenant_api.post(path("subscriptions"), wanted)
    session.screen.show(created, lambda: _created(created))
    for warning in created["warnings"]:
        session.screen.note(Text("! ", "yellow") + words(warning))
    if not created["challenged"]:
        session.screen.note("no challenge went out: hookkeeper subscriptions verify " + created["id"])
    if wait:
        _wait_until_in_force(session, created["id"])


def _wait_until_in_force(session: Session, subscription_id: str) -> None:
    """Return when every event from now on is delivered. Raises Failure where that takes over a minute."""
    for _ in range(PATIENCE_POLLS):
        found = session.tenant_api.get(path("subscriptions", subscription_id))
        first = found["first_active_at"]
        if found["status"] == "active" and first and moment(first) <= session.now:
            session.screen.note(Text("✓ ", "green") + words("active, and in force from now on"))
            return
        session.outside.pause(POLL_SECONDS)
    raise Failure(f"{subscription_id} is {found['status']}; did the endpoint echo its challenge?")


@command(app, "list")
def list_all(
    session: Session,
    status: Annotated[
        Status | None, typer.Option(help="Without it, neither revoked nor archived ones.")
    ] = None,
    event_type: Annotated[str | None, typer.Option("--type", help="Those that would get this type.")] = None,
    resource_id: Annotated[str | None, typer.Option("--resource", help="Those of this resource.")] = None,
    most: Most = 20,
    everything: All = False,
) -> None:
    """List subscriptions with how their endpoints fare."""
    found, more = session.tenant_api.pages(
        path("subscriptions"),
        most=None if everything else most,
        status=status,
        event_type=event_type,
        resource_id=resource_id,
    )

    def shown() -> Rows:
        rows = Rows(
            "status", "subscription", "endpoint", "types", "health", flexible=["endpoint", "types", "health"]
        )
        for each in found:
            rows.add(
                status_of(each),
                each["id"],
                words(each["endpoint_url"]),
                words(_some(each["event_types"])),
                _fares(each, session),
            )
        return rows

    session.screen.show_all(found, shown, more=more, none="no subscriptions")


@command(app, "get")
def get(session: Session, subscription_id: Id) -> None:
    """Show one subscription, its health, and what is owed to it."""
    found = session.tenant_api.get(path("subscriptions", subscription_id))
    session.screen.show(found, lambda: _whole(found, session))


@command(app, "verify")
def verify(
    session: Session,
    subscription_id: Id,
    challenge: Annotated[
        str | None, typer.Argument(help="What the endpoint received; left out, it is sent a fresh one.")
    ] = None,
) -> None:
    """Answer the challenge for an endpoint that did not echo it, or have a fresh one sent."""
    if challenge is None:
        found = session.tenant_api.post(path("subscriptions", subscription_id, "verification"))
        session.done(found, f"a fresh challenge is on its way to {found['endpoint_url']}")
        return
    found = session.tenant_api.post(
        path("subscriptions", subscription_id, "verify"), {"challenge": challenge}
    )
    _standing(found, session)


@command(app, "pause")
def pause(session: Session, subscription_id: Id) -> None:
    """Send nothing until it is re-enabled; what is missed is owed."""
    _standing(session.tenant_api.post(path("subscriptions", subscription_id, "pause")), session)


@command(app, "reenable")
def reenable(
    session: Session,
    subscription_id: Id,
    probe: Annotated[
        bool | None,
        typer.Option("--probe/--no-probe", help="Must it answer a probe first? Else its policy says."),
    ] = None,
    backfill: Annotated[
        bool, typer.Option("--backfill/--no-backfill", help="Is what was missed delivered?")
    ] = True,
    rate: Annotated[float | None, typer.Option(help="Backfill at most so many a second.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Watch until the recovery has ended.")] = False,
) -> None:
    """Bring a suspended subscription back: probe, activate, deliver what was missed at a pace.

    With --wait: 0 when all of it was delivered, 1 when the probe failed or it was ended, 5 when some failed.
    """
    wanted: dict[str, Any] = {"backfill": backfill}
    wanted |= {"probe": probe} if probe is not None else {}
    wanted |= {"rate": rate} if rate is not None else {}
    before = newest(session, subscription_id) if wait else None
    asked = session.tenant_api.post(path("subscriptions", subscription_id, "reenable"), wanted)
    if not wait:
        running = asked["recovery_id"]
        told = f"{running} runs already" if running else "it is on its way"
        session.done(asked, f"{told}; see: hookkeeper recoveries watch {subscription_id}")
        return
    recovery_id = asked["recovery_id"] or wait_for_next(session, subscription_id, before=before)
    watch(session, recovery_id)


@command(app, "revoke")
def revoke(session: Session, subscription_id: Id, yes: Yes = False) -> None:
    """End a subscription for good; what is owed to it is discarded."""
    present = session.tenant_api.get(path("subscriptions", subscription_id))
    question = f"Revoke {subscription_id} ({present['endpoint_url']}) for good?"
    session.confirm(question, yes=yes)
    session.tenant_api.delete(path("subscriptions", subscription_id), etag=present["etag"])
    session.done({"id": subscription_id, "status": "revoked"}, f"{subscription_id} is revoked")


@command(app, "rotate-secret")
def rotate_secret(
    session: Session,
    subscription_id: Id,
    overlap_hours: Annotated[
        float, typer.Option("--overlap", min=0, max=168, help="Hours for which the old one signs as well.")
    ] = 24,
) -> None:
    """Make a new secret. It is shown this once: stdout holds it and nothing else."""
    asked = {"overlap_hours": overlap_hours}
    rotated = session.tenant_api.post(path("subscriptions", subscription_id, "rotate-secret"), asked)
    if session.json:
        session.screen.document(rotated)
        return
    session.screen.word(rotated["secret"])
    session.screen.note(Text("the old one signs as well until ", "dim") + _at(rotated, session))


@command(app, "test")
def send_test(
    session: Session,
    subscription_id: Id,
    event_type: Annotated[str | None, typer.Option("--type", help="Which type it has.")] = None,
    data: Annotated[str | None, typer.Option(help="A JSON object: @file, - or the text.")] = None,
) -> None:
    """Send the endpoint a signed test event that counts for nothing."""
    wanted: dict[str, Any] = {"event_type": event_type} if event_type else {}
    wanted |= {"data": json_object(data)} if data else {}
    sent = session.tenant_api.post(path("subscriptions", subscription_id, "test"), wanted)
    session.done(sent, f"a test event {sent['event_type']} is on its way")


@command(app, "audit")
def audit(session: Session, subscription_id: Id, most: Most = 20, everything: All = False) -> None:
    """List who changed what, the newest first."""
    found, more = session.tenant_api.pages(
        path("subscriptions", subscription_id, "audit"), most=None if everything else most
    )

    def shown() -> Rows:
        rows = Rows("when", "what", "who", "change", flexible=["what", "who", "change"])
        for each in found:
            rows.add(
                ago(each["at"], session.now),
                words(each["action"]),
                words(each["actor"]),
                words(_change(each)),
            )
        return rows

    session.screen.show_all(found, shown, more=more, none="nothing was changed")


# ── how they look ────────────────────────────────────────────────────────────────────────────────


def status_of(subscription: dict[str, Any]) -> Text:
    """Its status; a pause by hand is not shown as a failure."""
    if subscription["status"] == "suspended" and subscription["disabled_reason"] == "manual":
        return mark("paused")
    return mark(subscription["status"])


def _standing(subscription: dict[str, Any], session: Session) -> None:
    session.screen.show(subscription, lambda: words(subscription["id"] + "  ") + status_of(subscription))


def _at(rotated: dict[str, Any], session: Session) -> Text:
    return at(rotated["old_signs_until"], session.now) or Text("now")


def _some(event_types: Sequence[str]) -> str:
    shown = ", ".join(event_types[:2])
    return f"{shown} +{len(event_types) - 2}" if len(event_types) > 2 else shown


def _fares(subscription: dict[str, Any], session: Session) -> Text:
    health = subscription["health"]
    failures = health["consecutive_failures"]
    if subscription["status"] == "pending":
        return Text("waits for its challenge", "dim")
    if failures:
        last = health["last_status_code"] or health["last_error"] or "?"
        since = ago(health["first_failure_at"], session.now)
        told = Text(f"{failures} failed", "red") + Text(" since ") + since + words(f", last {last}")
    elif health["last_success_at"]:
        told = Text("✓ ", "green") + ago(health["last_success_at"], session.now)
    else:
        told = Text("nothing sent yet", "dim")
    return told + Text("  circuit open", "yellow") if health["circuit"]["state"] == "open" else told


def _created(created: dict[str, Any]) -> Table:
    return facts(
        {
            "subscription": created["id"],
            "status": mark(created["status"]),
            "endpoint": created["endpoint_url"],
            "types": ", ".join(created["event_types"]),
            "owner": created["owner_email"],
            "secret": Text(created["secret"], "bold"),
            "": Text("Keep the secret: it cannot be shown again.", "dim"),
        }
    )


def _whole(found: dict[str, Any], session: Session) -> Table:
    now = session.now
    health = found["health"]
    first = {
        "subscription": words(found["id"] + "  ") + status_of(found),
        "why": _why(found, session),
        "endpoint": found["endpoint_url"],
        "staged": found["pending_endpoint_url"],
        "types": ", ".join(found["event_types"]),
        "resource": found["resource_id"],
        "owner": found["owner_email"],
        "description": found["description"],
        "metadata": _named(found["metadata"]),
        "headers": ", ".join(found["headers"]),
        "policy": f"{found['policy']}, {found['timeout_seconds']} s a request",
        "maintenance": at(found["maintenance_until"], now),
        "created": at(found["created_at"], now),
        "first active": at(found["first_active_at"], now),
    }
    return facts(first | _health_rows(health, session))


def _why(found: dict[str, Any], session: Session) -> Text | None:
    if not found["disabled_at"]:
        return None
    reason = f"{found['disabled_reason']} ({found['status_reason']}), "
    return words(reason, "red") + ago(found["disabled_at"], session.now)


def _change(record: dict[str, Any]) -> str:
    """`status: active → suspended; detail`."""
    before, after = record["before"], record["after"]
    parts = [f"{name}: {before.get(name, '')} → {after.get(name, '')}" for name in {**before, **after}]
    return "; ".join([*parts, *filter(None, [record["detail"]])])


def _named(pairs_: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs_.items())


def _health_rows(health: dict[str, Any], session: Session) -> dict[str, object]:
    now = session.now
    streaks = [f"{each['count']} {outcome}" for outcome, each in health["streaks"].items()]
    failing = Text(f"{health['consecutive_failures']} in a row", "red") if streaks else None
    more = " or more" if health["owed_more"] else ""
    return {
        "failing": failing and failing + Text(f" ({', '.join(streaks)})"),
        "failing since": at(health["first_failure_at"], now) if streaks else None,
        "last failure": (health["last_error"] or health["last_status_code"]) if streaks else None,
        "last attempt": at(health["last_attempt_at"], now),
        "last success": at(health["last_success_at"], now),
        "circuit": _circuit(health["circuit"], session),
        "outage from": at(health["outage_from"], now),
        "owed": f"{health['owed']}{more} attempted or held" if health["owed"] else None,
        "recovery": health["recovery_id"],
    }


def _circuit(circuit: dict[str, Any], session: Session) -> Text | None:
    if circuit["state"] != "open":
        return None
    return Text("open", "yellow") + Text(", next trial ") + due(circuit["open_until"], session.now)
