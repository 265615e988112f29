"""`hookkeeper up | down | status | demo`: the stack on the embedded AWS of this machine."""

from typing import Any

import typer
from rich.table import Table

from infra.cli.command import NOT_FOUND
from infra.cli.session import Session
from infra.cli.show import facts
from infra.local.stack import Stack

_QUESTIONS = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")


def up(session: Session) -> None:
    """Start the embedded AWS with the stack on it, or bring it up to date. Half a minute."""
    from infra.local import lifecycle

    began = session.outside.clock()

    def say(step: str) -> None:
        session.screen.note(f"{session.outside.clock() - began:5.1f} s  {step}")

    running = lifecycle.up(session.outside.home, say)
    say("up")
    session.screen.show(_document(running, session), lambda: _shown(running, session))


def down(session: Session) -> None:
    """Stop it and forget what was on it."""
    from infra.local import lifecycle

    stopped = lifecycle.down(session.outside.home)
    session.done({"stopped": stopped}, "stopped" if stopped else "nothing ran")


def status(session: Session) -> None:
    """Show where everything of the local stack is, and what waits in its queues. 3: it is not up."""
    from infra.local import lifecycle

    running = lifecycle.status(session.outside.home)
    if running is None:
        session.screen.show({"up": False}, lambda: "not up; hookkeeper up starts it")
        raise typer.Exit(NOT_FOUND)
    waiting = _waiting(running, session)
    document = {**_document(running, session), "waiting": waiting}
    session.screen.show(document, lambda: _shown(running, session, waiting))


def demo(_: Session) -> None:
    """Play the whole story on an embedded AWS of its own, about two minutes; 0 when the promise held."""
    from infra.local.demo import demo as play

    raise typer.Exit(play())


def _waiting(running: Stack, session: Session) -> dict[str, int]:
    """How many messages lie in each queue, those in flight included; dead letters as `dead …`."""
    sqs = session.outside.aws("sqs", running)
    urls = {name.lower(): url for name, url in running.queues.items()}
    urls |= {f"dead {name.lower()}": url for name, url in running.dead_letter_queues.items()}
    return {name: _messages(sqs, url) for name, url in urls.items()}


def _messages(sqs: Any, url: str) -> int:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(_QUESTIONS))["Attributes"]
    return sum(int(answer[name]) for name in _QUESTIONS)


def _document(running: Stack, session: Session) -> dict[str, Any]:
    """Without the operator key: stack.json has it, and this command finds it there."""
    return {
        "up": True,
        "api_url": running.api_url,
        "console_url": running.outputs.get("ConsoleUrl"),
        "events_queue_url": running.events_queue_url,
        "event_bus_name": running.event_bus_name,
        "aws_endpoint_url": running.aws_endpoint_url,
        "mails_url": f"{running.aws_endpoint_url}/_ministack/ses/messages",
        "stack_file": str(session.outside.home.stack),
    }


def _shown(running: Stack, session: Session, waiting: dict[str, int] | None = None) -> Table:
    document = _document(running, session)
    busy = {name: count for name, count in (waiting or {}).items() if count}
    told = ", ".join(f"{count} in {name}" for name, count in busy.items()) or "nothing"
    return facts(
        {
            "API": document["api_url"],
            "console": document["console_url"],
            "events queue": document["events_queue_url"],
            "event bus": document["event_bus_name"],
            "AWS endpoint": document["aws_endpoint_url"],
            "mails": document["mails_url"],
            "keys and all": document["stack_file"],
            "waiting": told if waiting is not None else None,
        }
    )
