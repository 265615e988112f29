"""Clients of the embedded AWS, and the mails it would have sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import boto3
import httpx
from botocore.config import Config

from infra.local import ministack
from infra.local.stack import Stack


def client(stack: Stack, service: str) -> Any:
    """A boto3 client with the rights of the account's root."""
    return root_client(service, stack.aws_endpoint_url)


def root_client(service: str, endpoint_url: str) -> Any:
    create: Any = boto3.Session(
        aws_access_key_id=ministack.ACCOUNT,
        aws_secret_access_key=ministack.SECRET_KEY,
        region_name=ministack.REGION,
    ).client
    return create(
        service,
        endpoint_url=endpoint_url,
        config=Config(retries={"mode": "standard"}, connect_timeout=5, read_timeout=65, proxies={}),
    )


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail that SES took. `at` is in seconds since the epoch."""

    id: str
    sender: str
    to: tuple[str, ...]
    subject: str
    text: str
    html: str
    at: float


def mails(stack: Stack, *, to: str | None = None) -> Sequence[Mail]:
    """Every mail since the start, oldest first; only those to one address where it is given."""
    answer = httpx.get(f"{stack.aws_endpoint_url}/_ministack/ses/messages", trust_env=False)
    answer.raise_for_status()
    taken = [_mail(each) for each in answer.json()["messages"].get(stack.aws_access_key_id, [])]
    return [mail for mail in sorted(taken, key=lambda mail: mail.at) if to is None or to in mail.to]


def _mail(message: dict[str, Any]) -> Mail:
    return Mail(
        id=message["MessageId"],
        sender=message["Source"],
        to=tuple(message["To"]),
        subject=message.get("Subject") or "",
        text=message.get("BodyText") or "",
        html=message.get("BodyHtml") or "",
        at=message["Timestamp"],
    )
