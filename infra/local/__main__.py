"""`python -m infra.local up | down | status | demo`: what make's targets of these names run."""

import argparse
import sys
import time

from infra.local import lifecycle
from infra.local.home import Home
from infra.local.ministack import ServerError
from infra.local.stack import DeployError, Stack


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.local", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "status", "demo"))
    command = parser.parse_args().command
    try:
        return {"up": _up, "down": _down, "status": _status, "demo": _demo}[command](Home())
    except (ServerError, DeployError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1


def _up(home: Home) -> int:
    started = time.monotonic()

    def say(step: str) -> None:
        print(f"{time.monotonic() - started:5.1f} s  {step}", flush=True)

    running = lifecycle.up(home, say)
    say("up")
    print(f"\n{_summary(running, home)}")
    return 0


def _down(home: Home) -> int:
    print("stopped" if lifecycle.down(home) else "nothing ran")
    return 0


def _status(home: Home) -> int:
    running = lifecycle.status(home)
    print(_summary(running, home) if running else "not up; `make up` starts it")
    return 0 if running else 3


def _demo(_: Home) -> int:
    from infra.local.demo import demo

    return demo()


def _summary(running: Stack, home: Home) -> str:
    lines = {
        "API": running.api_url,
        "Console": running.outputs.get("ConsoleUrl", ""),
        "Operator key": running.operator_key,
        "Events queue": running.events_queue_url,
        "Event bus": running.event_bus_name,
        "AWS endpoint": running.aws_endpoint_url,
        "Mails": f"{running.aws_endpoint_url}/_ministack/ses/messages",
        "Everything": str(home.stack),
    }
    return "\n".join(f"{name:<14}{value}" for name, value in lines.items() if value)


if __name__ == "__main__":
    sys.exit(main())
