"""The runtime configuration is young, good, and never stricter because something went wrong."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hookkeeper.adapters.appconfig_runtime import AppConfigRuntime
from hookkeeper.domain.config import RuntimeConfig
from hookkeeper.domain.health import AutoSuspend
from hookkeeper.ports import RuntimeConfigs
from hookkeeper.runtime_document import MAX_RETENTION_DAYS

from tests.fakes import FakeRuntimeConfigs, World

DOCUMENT = '{"auto_suspend": "observe", "retention_days": 3}'


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ""}}, "GetLatestConfiguration")


@dataclass
class FakeAppConfig:
    """AppConfig's data plane: sessions, one-use tokens, and nothing where nothing changed."""

    document: str = "{}"
    fault: Exception | None = None
    polls: int = 0
    sessions: list[dict[str, Any]] = field(default_factory=list)
    _seen: dict[str, str | None] = field(default_factory=dict)

    def start_configuration_session(self, **asked: Any) -> dict[str, str]:
        self._raise()
        self.sessions.append(asked)
        token = f"session-{len(self.sessions)}-0"
        self._seen[token] = None
        return {"InitialConfigurationToken": token}

    def get_latest_configuration(self, *, ConfigurationToken: str) -> dict[str, Any]:  # noqa: N803
        self._raise()
        self.polls += 1
        seen = self._seen.pop(ConfigurationToken)  # a token serves once
        text = "" if seen == self.document else self.document
        token = f"{ConfigurationToken.rpartition('-')[0]}-{self.polls}"
        self._seen[token] = self.document
        return {"Configuration": io.BytesIO(text.encode()), "NextPollConfigurationToken": token}

    def _raise(self) -> None:
        if self.fault is not None:
            raise self.fault


@dataclass
class Bench:
    """A function's configuration over a fake AppConfig, on a clock of its own."""

    app_config: FakeAppConfig = field(default_factory=FakeAppConfig)
    now: float = 0.0
    told: list[Exception] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runtime = AppConfigRuntime(
            self.app_config,
            application="app",
            environment="env",
            profile="runtime",
            on_fallback=self.told.append,
            timer=lambda: self.now,
        )

    def after(self, seconds: float) -> RuntimeConfig:
        self.now += seconds
        return self.runtime.current()


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture(params=["fake", "appconfig"])
def runtime(request: pytest.FixtureRequest, world: World) -> RuntimeConfigs:
    return FakeRuntimeConfigs(world) if request.param == "fake" else Bench().runtime


def test_an_empty_document_is_the_defaults(runtime: RuntimeConfigs) -> None:
    assert runtime.current() == RuntimeConfig()


def test_a_document_is_in_force_when_it_is_first_asked_for(bench: Bench) -> None:
    bench.app_config.document = DOCUMENT
    assert bench.after(0).auto_suspend is AutoSuspend.OBSERVE
    assert bench.app_config.sessions == [
        {
            "ApplicationIdentifier": "app",
            "EnvironmentIdentifier": "env",
            "ConfigurationProfileIdentifier": "runtime",
            "RequiredMinimumPollIntervalInSeconds": 15,
        }
    ]


def test_a_change_is_in_force_within_thirty_seconds(bench: Bench) -> None:
    bench.after(0)
    bench.app_config.document = DOCUMENT
    assert bench.after(30).retention == timedelta(days=3)


def test_it_is_asked_for_once_in_a_while_and_not_at_each_use(bench: Bench) -> None:
    for _ in range(100):
        bench.after(0.1)
    assert bench.app_config.polls == 1


def test_an_unchanged_document_stays(bench: Bench) -> None:
    bench.app_config.document = DOCUMENT
    first = bench.after(0)
    assert [bench.after(30) for _ in range(5)] == [first] * 5
    assert (len(bench.app_config.sessions), bench.told) == (1, [])


BAD_DAYS: list[tuple[str, Callable[[FakeAppConfig], None]]] = [
    ("no JSON", lambda app: setattr(app, "document", "{")),
    ("unknown field", lambda app: setattr(app, "document", '{"auto_suspnd": "off"}')),
    ("impossible number", lambda app: setattr(app, "document", '{"retention_days": 0}')),
    ("unknown preset", lambda app: setattr(app, "document", '{"tenant_policies": {"acme": "gradde"}}')),
    ("not text", lambda app: setattr(app, "document", "\x00\x01")),
    ("throttled", lambda app: setattr(app, "fault", refused("ThrottlingException"))),
    ("session ended", lambda app: setattr(app, "fault", refused("BadRequestException"))),
    ("gone", lambda app: setattr(app, "fault", refused("ResourceNotFoundException"))),
    ("unreachable", lambda app: setattr(app, "fault", EndpointConnectionError(endpoint_url="https://x"))),
]


@pytest.mark.parametrize("spoil", [spoil for _, spoil in BAD_DAYS], ids=[name for name, _ in BAD_DAYS])
def test_the_last_good_document_holds_whatever_goes_wrong_and_it_is_told_each_time(
    bench: Bench, spoil: Callable[[FakeAppConfig], None]
) -> None:
    bench.app_config.document = DOCUMENT
    good = bench.after(0)
    spoil(bench.app_config)
    assert [bench.after(30) for _ in range(3)] == [good] * 3
    assert len(bench.told) == 3
    bench.app_config.document, bench.app_config.fault = '{"auto_suspend": "off"}', None
    assert bench.after(30).auto_suspend is AutoSuspend.OFF
    assert len(bench.told) == 3


@pytest.mark.parametrize("spoil", [spoil for _, spoil in BAD_DAYS], ids=[name for name, _ in BAD_DAYS])
def test_where_none_was_ever_good_nobody_is_suspended_and_nothing_expires_early(
    bench: Bench, spoil: Callable[[FakeAppConfig], None]
) -> None:
    spoil(bench.app_config)
    longest = timedelta(days=MAX_RETENTION_DAYS)
    assert bench.after(0) == RuntimeConfig(auto_suspend=AutoSuspend.OBSERVE, retention=longest)
    assert len(bench.told) == 1
    bench.app_config.document, bench.app_config.fault = "{}", None
    assert bench.after(30) == RuntimeConfig()


def test_an_unreachable_appconfig_is_not_asked_at_each_delivery(bench: Bench) -> None:
    bench.app_config.fault = refused("ThrottlingException")
    for _ in range(50):
        bench.after(0.1)
    assert len(bench.told) == 1


@dataclass(frozen=True)
class Settings:
    """Of a function's settings, what names the document."""

    appconfig_application: str = "app"
    appconfig_environment: str = "env"
    appconfig_profile: str = "runtime"


def test_a_function_reads_the_document_that_its_settings_name() -> None:
    assert isinstance(AppConfigRuntime.of(Settings()), AppConfigRuntime)
