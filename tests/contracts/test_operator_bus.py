"""What operators are told is on the bus, or the caller hears that it is not."""

from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from hookkeeper.adapters.eventbridge_bus import SOURCE, EventBridgeBus
from hookkeeper.domain.errors import OwnFaultError

from tests.contracts.conftest import Aws
from tests.faults import answer, counted, refuse

DETAIL = {"subscription_id": "sub_1", "reason": "zoë's \u2028"}
FAILED = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException", "ErrorMessage": ""}]}


@pytest.fixture
def bus(aws: Aws) -> EventBridgeBus:
    aws.client("events").create_event_bus(Name="hookkeeper")
    return EventBridgeBus(aws.client("events"), bus_name="hookkeeper", sleep=lambda _: None)


def test_an_event_names_hookkeeper_as_its_source(aws: Aws, bus: EventBridgeBus) -> None:
    asked: list[Any] = []

    def note(params: dict[str, Any], **_: Any) -> None:
        asked.append(params)

    aws.client("events").meta.events.register("provide-client-params.events.PutEvents", note)
    bus.publish("hookkeeper.subscription.suspended", DETAIL)
    ((entry,),) = [params["Entries"] for params in asked]
    assert (entry["Source"], entry["EventBusName"]) == (SOURCE, "hookkeeper")
    assert entry["DetailType"] == "hookkeeper.subscription.suspended"


@pytest.mark.parametrize("fault", [FAILED, EndpointConnectionError(endpoint_url="https://events.example")])
def test_an_entry_that_failed_is_sent_again(aws: Aws, bus: EventBridgeBus, fault: Any) -> None:
    calls = counted(aws.client("events"))
    answer(aws.client("events"), "PutEvents", [fault, fault, None])
    bus.publish("hookkeeper.subscription.suspended", DETAIL)
    assert calls["PutEvents"] <= 3


def test_a_success_that_carries_a_failed_entry_is_no_success(aws: Aws, bus: EventBridgeBus) -> None:
    answer(aws.client("events"), "PutEvents", [FAILED] * 3)
    with pytest.raises(OwnFaultError, match="ThrottlingException"):
        bus.publish("hookkeeper.subscription.suspended", DETAIL)


def test_a_bus_that_refuses_is_our_own_fault(aws: Aws, bus: EventBridgeBus) -> None:
    refuse(aws.client("events"), "PutEvents", code="AccessDeniedException", times=9)
    with pytest.raises(OwnFaultError):
        bus.publish("hookkeeper.subscription.suspended", DETAIL)
