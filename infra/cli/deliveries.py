"""`hookkeeper deliveries`: what was attempted or held, and every attempt."""

from typing import Annotated, Any

import typer
from hookkeeper.domain.delivery import DeliveryStatus
from rich.console import Group
from rich.text import Text

from infra.cli.client import path
from infra.cli.command import All, Most, command
from infra.cli.session import Session
from infra.cli.show import Rows, ago, at, clock, due, facts, mark, words

app = typer.Typer(help="Events owed to one subscription, and their attempts.", no_args_is_help=True)


@command(app, "list")
def list_all(
    session: Session,
    subscription_id: Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="sub_…")],
    status: Annotated[
        DeliveryStatus | None, typer.Option(help="With retrying, exhausted or held, the oldest first.")
    ] = None,
    since: Annotated[str | None, typer.Option("--from", help="Archived at or after it, RFC 3339.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Archived at or before it, RFC 3339.")] = None,
    most: Most = 20,
    everything: All = False,
) -> None:
    """List what was attempted or held for a subscription, the newest first."""
    bounds = {"from": since, "to": until}
    found, more = session.tenant_api.pages(
        path("subscriptions", subscription_id, "deliveries"),
        most=None if everything else most,
        status=status,
        **bounds,
    )

    def shown() -> Rows:
        rows = Rows("status", "event", "type", "archived", "tries", "last", "next", flexible=["type", "last"])
        for each in found:
            rows.add(
                mark(each["status"]),
                words(each["event_id"]),
                words(each["event_type"]),
                ago(each["archived_at"], session.now),
                str(each["attempt_count"]),
                _answer(each["attempts"][-1]) if each["attempts"] else Text("–", "dim"),
                due(each["next_attempt_at"], session.now) if each["next_attempt_at"] else Text("–", "dim"),
            )
        return rows

    session.screen.show_all(found, shown, more=more, none="nothing was attempted or held here")


@command(app, "get")
def get(
    session: Session, delivery_id: Annotated[str, typer.Argument(metavar="DELIVERY", help="Its id.")]
) -> None:
    """Show one delivery and its last ten attempts."""
    found = session.tenant_api.get(path("deliveries", delivery_id))
    session.screen.show(found, lambda: _whole(found, session))


@command(app, "retry")
def retry(
    session: Session, delivery_id: Annotated[str, typer.Argument(metavar="DELIVERY", help="Its id.")]
) -> None:
    """Send one more attempt at once, whatever its status; it counts for nothing in health."""
    found = session.tenant_api.post(path("deliveries", delivery_id, "retry"))
    session.done(found, f"one more attempt is on its way; see: hookkeeper deliveries get {delivery_id}")


def _whole(found: dict[str, Any], session: Session) -> Group:
    now = session.now
    head = facts(
        {
            "delivery": words(found["id"] + "  ") + mark(found["status"]),
            "event": f"{found['event_id']}  {found['event_type']}",
            "subscription": found["subscription_id"],
            "archived": at(found["archived_at"], now),
            "attempts": str(found["attempt_count"]),
            "next attempt": at(found["next_attempt_at"], now),
        }
    )
    rows = Rows(
        "#", "at (UTC)", "lane", "answer", "took", "excerpt", right=["#", "took"], flexible=["excerpt"]
    )
    for attempt in found["attempts"]:
        rows.add(
            str(attempt["n"]),
            clock(attempt["at"]),
            attempt["lane"],
            _answer(attempt),
            f"{attempt['latency_ms']} ms",
            words(attempt["excerpt"].replace("\n", " "), "dim"),
        )
    return Group(head, "", rows) if found["attempts"] else Group(head)


def _answer(attempt: dict[str, Any]) -> Text:
    style = "red" if attempt["error"] else "green"
    code = attempt["status_code"]
    return words(attempt["error"] if code is None else code, style)
