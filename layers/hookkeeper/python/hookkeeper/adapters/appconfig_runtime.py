"""The runtime configuration as AppConfig has it, at most half a minute old; else the last good one.

A bad or unreachable document never makes anything stricter: whatever held goes on holding, and is told.
Where nothing ever held, as in a worker that started meanwhile, nobody is suspended and nothing expires early.
"""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, Self

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError

from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.health import AutoSuspend
from hookkeeper.runtime_document import MAX_RETENTION_DAYS, RuntimeDocument

MAX_AGE_SECONDS = 20.0
POLL_SECONDS = 15
"""AppConfig's shortest interval between two polls of a session."""

TIMEOUT_SECONDS = 2

UNTOLD = RuntimeConfig(auto_suspend=AutoSuspend.OBSERVE, retention=timedelta(days=MAX_RETENTION_DAYS))
"""Until a document was read: the defaults may be stricter than the one that could not be."""

log = logging.getLogger(__name__)


class _Settings(Protocol):
    @property
    def appconfig_application(self) -> str: ...
    @property
    def appconfig_environment(self) -> str: ...
    @property
    def appconfig_profile(self) -> str: ...


def _log_fallback(error: Exception) -> None:
    log.error("runtime_config.fell_back", extra={"error": type(error).__name__})


class AppConfigRuntime:
    """The RuntimeConfigs port; `on_fallback` is called at each poll that brought nothing usable."""

    def __init__(
        self,
        client: Any,
        *,
        application: str,
        environment: str,
        profile: str,
        max_age_seconds: float = MAX_AGE_SECONDS,
        on_fallback: Callable[[Exception], None] = _log_fallback,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._session = {
            "ApplicationIdentifier": application,
            "EnvironmentIdentifier": environment,
            "ConfigurationProfileIdentifier": profile,
            "RequiredMinimumPollIntervalInSeconds": POLL_SECONDS,
        }
        self._max_age = max_age_seconds
        self._on_fallback = on_fallback
        self._timer = timer
        self._token: str | None = None
        self._config = UNTOLD
        self._good_until: float | None = None

    @classmethod
    def of(cls, settings: _Settings, **options: Any) -> Self:
        """For a function's settings, with a client that gives up soon: a delivery does not wait for it."""
        patience = Config(
            connect_timeout=TIMEOUT_SECONDS, read_timeout=TIMEOUT_SECONDS, retries={"total_max_attempts": 2}
        )
        return cls(
            boto3.client("appconfigdata", config=patience),
            application=settings.appconfig_application,
            environment=settings.appconfig_environment,
            profile=settings.appconfig_profile,
            **options,
        )

    def current(self) -> RuntimeConfig:
        if self._good_until is None or self._timer() >= self._good_until:
            self._refresh()
            self._good_until = self._timer() + self._max_age
        return self._config

    def _refresh(self) -> None:
        try:
            text = self._poll()
            if text:
                self._config = RuntimeDocument.model_validate_json(text).config()
        except (ClientError, BotoCoreError, ValidationError) as error:
            self._token = None  # a new session gives the whole document again
            self._on_fallback(error)

    def _poll(self) -> bytes:
        """The document, or nothing where it has not changed since the last poll."""
        if self._token is None:
            self._token = self._client.start_configuration_session(**self._session)[
                "InitialConfigurationToken"
            ]
        answer = self._client.get_latest_configuration(ConfigurationToken=self._token)
        self._token = answer["NextPollConfigurationToken"]
        return bytes(answer["Configuration"].read())
