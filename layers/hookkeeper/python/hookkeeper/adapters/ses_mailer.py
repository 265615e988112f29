"""Mail by SES v2: taken, refused for good, or put off, told apart by error code alone."""

import re
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from hookkeeper.adapters.dynamodb import error_code
from hookkeeper.ports import Mail, MailDeferredError, MailRefusedError

REFUSALS = frozenset({"MessageRejected", "BadRequestException"})
"""SES's codes for a mail or an address that it will not take, whenever it is asked."""

_ADDRESS = re.compile(r"[^\s,;<>\"\x00-\x1f\x7f]+@[^\s,;<>\"@\x00-\x1f\x7f]+")
_NOT_IN_TAGS = re.compile(r"[^A-Za-z0-9_-]")
MAX_TAG = 256


class SesMailer:
    """One address a mail; bounces and complaints come back by the configuration set."""

    def __init__(self, client: Any, *, sender: str, configuration_set: str) -> None:
        self._client = client
        self._sender = sender
        self._configuration_set = configuration_set

    def send(self, mail: Mail) -> str:
        if not _ADDRESS.fullmatch(mail.to) or not mail.subject.isprintable():
            raise MailRefusedError("an address or a subject of a mail has characters that it may not have")
        try:
            answer = self._client.send_email(**self._request(mail))
        except ClientError as error:
            if error_code(error) in REFUSALS:
                raise MailRefusedError(error_code(error)) from error
            raise MailDeferredError(error_code(error)) from error
        except BotoCoreError as error:
            raise MailDeferredError(type(error).__name__) from error
        return str(answer["MessageId"])

    def _request(self, mail: Mail) -> dict[str, Any]:
        return {
            "FromEmailAddress": self._sender,
            "Destination": {"ToAddresses": [mail.to]},
            "ConfigurationSetName": self._configuration_set,
            "Content": {
                "Simple": {
                    "Subject": _text(mail.subject),
                    "Body": {"Text": _text(mail.text), "Html": _text(mail.html)},
                }
            },
            "EmailTags": [
                {"Name": _tag(name), "Value": _tag(value)} for name, value in mail.tags.items() if value
            ],
        }


def _text(data: str) -> dict[str, str]:
    return {"Data": data, "Charset": "UTF-8"}


def _tag(text: str) -> str:
    """SES takes ASCII letters, digits, `_` and `-` alone: a notice's dots become `-`."""
    return _NOT_IN_TAGS.sub("-", text)[:MAX_TAG]
