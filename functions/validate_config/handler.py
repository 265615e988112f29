"""validate_config: AppConfig asks it before it stores or deploys a document, whoever wrote it.

It runs the very model that the functions read the document with. An answer lets the document pass; an
exception refuses it, and AppConfig shows its text to whoever asked.
"""

import base64
from typing import Any

from aws_lambda_powertools import Logger
from hookkeeper.runtime_document import faults_of
from hookkeeper.settings import ValidateConfigSettings

settings = ValidateConfigSettings.load()
logger = Logger(service="validate_config", level=settings.log_level)


class DocumentRefusedError(Exception):
    """The functions would not take the document; the text names each fault by its JSON pointer."""


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _: Any) -> None:
    """`content` is the document in base64, `uri` names it and its version."""
    faults = faults_of(base64.b64decode(event["content"]))
    logger.info("config.validated", extra={"uri": event.get("uri"), "faults": faults})
    if faults:
        raise DocumentRefusedError("; ".join(faults))
