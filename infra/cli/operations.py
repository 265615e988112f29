"""`hookkeeper at-risk` and `hookkeeper fuse`: what an operator looks at over all tenants."""

from typing import Any

from rich.table import Table
from rich.text import Text

from infra.cli.client import path
from infra.cli.command import All, Most
from infra.cli.session import Session
from infra.cli.show import Rows, ago, at, facts, mark, span, words


def at_risk(session: Session, most: Most = 20, everything: All = False) -> None:
    """List the subscriptions that the next failure would suspend: of all tenants, or of --tenant."""
    found, more = session.api.pages(path("operations", "at-risk"), most=None if everything else most)

    def shown() -> Rows:
        rows = Rows(
            "tenant",
            "subscription",
            "endpoint",
            "failed",
            "since",
            "last",
            "limits",
            right=["failed"],
            flexible=["endpoint", "last", "limits"],
        )
        for each in found:
            test = " test" if each["mode"] == "test" else ""
            rows.add(
                words(f"{each['tenant_id']}{test}"),
                each["subscription_id"],
                words(each["endpoint_url"]),
                Text(str(each["consecutive_failures"]), "red"),
                ago(each["first_failure_at"], session.now),
                words(each["last_status_code"] or each["last_error"]),
                words("; ".join(each["limits"])),
            )
        return rows

    session.screen.show_all(found, shown, more=more, none="nobody is at risk")


def fuse(session: Session) -> None:
    """Show whether suspensions pass, or wait since our own fault may be behind them."""
    told = session.api.get(path("operations", "fuse"))
    session.screen.show(told, lambda: _shown(told, session))


def _shown(told: dict[str, Any], session: Session) -> Table:
    within, most = told["hosts_let_through"], told["hosts_at_most"]
    canary = "answered" if told["canary_answered"] else "silent"
    return facts(
        {
            "fuse": mark(f"fuse {told['state']}"),
            "let through": f"{within} of {most} hosts in {span(told['span_seconds'])}",
            "suspects": str(told["suspects"]) if told["suspects"] else None,
            "latched": at(told["latched_at"], session.now),
            "canary": words(f"{canary}, ") + ago(told["canary_at"], session.now)
            if told["canary_at"]
            else None,
        }
    )
