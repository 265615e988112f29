"""The embedded AWS as a server: MiniStack on a free port of 127.0.0.1, with IAM enforced."""

import os
import socket
import sys
import time
from pathlib import Path

import httpx

from infra.local import process
from infra.local.home import Home

ACCOUNT = "111111111111"
REGION = "eu-west-1"
SECRET_KEY = "local"
"""The account's root: MiniStack takes any secret with the account's number as access key."""


class ServerError(Exception):
    """The embedded AWS did not start; the sentence ends with its log."""


def endpoint_url(home: Home) -> str:
    return f"http://127.0.0.1:{home.port.read_text()}"


def start(home: Home, *, patience_seconds: float = 60) -> str:
    """Start the server unless it runs; returns its URL. Raises ServerError."""
    home.prepare()
    if process.remembered(home.server) is None:
        home.stack.unlink(missing_ok=True)
        home.port.write_text(str(choose_port(home)))
        process.start(
            [sys.executable, "-m", "infra.local.server"],
            file=home.server,
            log=home.server_log,
            environment=_server_environment(home),
        )
    _await_health(home, time.monotonic() + patience_seconds)
    return endpoint_url(home)


def stop(home: Home) -> bool:
    """Stop the server and forget what was on it. False where none ran."""
    stopped = process.stop(home.server)
    home.stack.unlink(missing_ok=True)
    return stopped


def running(home: Home) -> bool:
    return process.remembered(home.server) is not None


def choose_port(home: Home) -> int:
    """The port of last time where it is free, else one that the system gives."""
    try:
        return _bound(int(home.port.read_text()))
    except (OSError, ValueError, OverflowError):
        return _bound(0)


def client_environment(home: Home) -> dict[str, str]:
    """For programs that speak to the embedded AWS. Nothing of the developer's own AWS settings is in it."""
    return _base_environment(home) | {
        "AWS_ENDPOINT_URL": endpoint_url(home),
        "AWS_ENDPOINT_URL_S3": endpoint_url(home),
        "AWS_REGION": REGION,
    }


def _server_environment(home: Home) -> dict[str, str]:
    return _base_environment(home) | {
        "AUTH": "true",
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": home.port.read_text(),
        "IOT_MTLS_ENABLED": "0",
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_REGION": REGION,
        "S3_DATA_DIR": str(home.scratch / "s3"),
        "STATE_DIR": str(home.scratch / "state"),
    }


def _base_environment(home: Home) -> dict[str, str]:
    """Lambda workers inherit the server's environment, so it holds what is named here and no more."""
    programs = Path(sys.executable).parent
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": os.environ.get("HOME", str(home.scratch)),
        "TMPDIR": str(home.scratch),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "AWS_ACCESS_KEY_ID": ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _bound(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        number: int = probe.getsockname()[1]
        return number


def _await_health(home: Home, deadline: float) -> None:
    url = f"{endpoint_url(home)}/_ministack/health"
    with httpx.Client(trust_env=False, timeout=2) as client:
        while not _healthy(client, url):
            if process.remembered(home.server) is None or time.monotonic() > deadline:
                process.stop(home.server)
                raise ServerError(f"the embedded AWS did not start:\n{_tail(home.server_log)}")
            time.sleep(0.1)


def _healthy(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).is_success
    except httpx.TransportError:
        return False


def _tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
