"""validate_config as AppConfig asks it: a good document passes, a bad one is refused and told where."""

import base64
import json
from typing import Any

import pytest
from hookkeeper.runtime_document import RuntimeDocument, faults_of
from hookkeeper.settings import ValidateConfigSettings

from tests.functions.conftest import ColdStart, Context, Started, a_sample


@pytest.fixture
def validate(cold_start: ColdStart) -> Started:
    return cold_start("validate_config", ValidateConfigSettings(stage="test"))


def asked(document: object) -> dict[str, Any]:
    text = document if isinstance(document, str) else json.dumps(document)
    return a_sample("validate_config") | {"content": base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize("document", [None, {}, {"auto_suspend": "observe"}], ids=str)
def test_a_document_that_the_functions_take_passes(validate: Started, document: object) -> None:
    event = a_sample("validate_config") if document is None else asked(document)
    assert validate.module.handler(event, Context()) is None
    assert validate.lines("config.validated")[0]["faults"] == []


BAD = [
    ({"no_such_thing": 1}, "/no_such_thing"),
    ({"retention_days": 99}, "/retention_days"),
    (
        {"presets": {"graded": {"limits": {"fatal": {"count": 0, "age_seconds": 0}}}}},
        "/presets/graded/limits/fatal/count",
    ),
    ({"tenant_policies": {"acme": "lenient"}}, "'lenient', which is no preset"),
    ({"pace": {"start_per_second": 50, "most_per_second": 5}}, "start_per_second is more than"),
    ("{", "Invalid JSON"),
    ("", "Invalid JSON"),
    ("[]", "object"),
]


@pytest.mark.parametrize("document, told", BAD, ids=[told for _, told in BAD])
def test_a_document_that_they_would_not_take_is_refused_and_says_where(
    validate: Started, document: object, told: str
) -> None:
    with pytest.raises(validate.module.DocumentRefusedError) as refused:
        validate.module.handler(asked(document), Context())
    assert told in str(refused.value)


def test_every_fault_is_told_at_once() -> None:
    text = json.dumps({"retention_days": 0, "mail": {"mails_a_day": 0}, "a/b~c": 1})
    places = [fault.split()[0] for fault in faults_of(text)]
    assert sorted(places) == ["/a~1b~0c", "/mail/mails_a_day", "/retention_days"]


def test_it_is_the_very_model_that_the_functions_read_with(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes | str] = []
    monkeypatch.setattr(RuntimeDocument, "model_validate_json", read.append)
    assert faults_of(b"{}") == []
    assert read == [b"{}"]
