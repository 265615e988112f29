"""An owner has one key at the gateway, on one plan, however often and from wherever it is asked for.

moto's API Gateway wants more packages than it is worth here: what is asked and answered is written out.
"""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from hookkeeper.adapters.apigateway_keys import ApiGatewayKeys
from hookkeeper.domain.access import gateway_key
from hookkeeper.domain.errors import OwnFaultError

from tests.contracts.conftest import Aws

API = "abcdefghij"
ACME = gateway_key(API, "acme")

PLANS = {"limit": 500}
LOOK = {"nameQuery": ACME, "limit": 500}
PUT = {"usagePlanId": "plan_1", "keyId": "id_1", "keyType": "API_KEY"}
MADE = {"name": ACME, "value": ACME, "description": "Counts the calls of acme", "enabled": True}


class Gateway:
    """API Gateway with a script: what it must be asked, in order, and what it says."""

    def __init__(self, client: Any) -> None:
        self.script = Stubber(client)
        self.keys = ApiGatewayKeys(client, api_id=API)

    def has_plans(self, *names: str) -> None:
        plans = [{"id": f"plan_{n}", "name": name} for n, name in enumerate(names, 1)]
        self.script.add_response("get_usage_plans", {"items": plans}, PLANS)

    def has_keys(self, *names: str) -> None:
        keys = [{"id": f"id_{n}", "name": name} for n, name in enumerate(names, 1)]
        self.script.add_response("get_api_keys", {"items": keys}, LOOK)

    def takes(self, call: str, wanted: dict[str, Any]) -> None:
        self.script.add_response(call, {"id": "id_1"}, wanted)

    def refuses(self, call: str, code: str) -> None:
        self.script.add_client_error(call, code)

    def ensure(self, plan: str = "standard") -> None:
        with self.script:
            self.keys.ensure("acme", plan=plan)
            self.script.assert_no_pending_responses()


@pytest.fixture
def gateway(aws: Aws) -> Gateway:
    return Gateway(aws.client("apigateway"))


def test_an_owner_without_a_key_gets_one_on_the_plan_of_this_very_name(gateway: Gateway) -> None:
    gateway.has_plans(f"{API}-standard", "other-gold", f"{API}-gold2", f"{API}-gold")
    gateway.has_keys()
    gateway.takes("create_api_key", MADE)
    gateway.takes("create_usage_plan_key", PUT | {"usagePlanId": "plan_4"})
    gateway.ensure("gold")


def test_a_key_whose_way_onto_its_plan_was_cut_short_is_taken_up(gateway: Gateway) -> None:
    gateway.has_plans(f"{API}-standard")
    gateway.has_keys(ACME)
    gateway.takes("create_usage_plan_key", PUT)
    gateway.ensure()


def test_a_plan_is_looked_up_once(gateway: Gateway) -> None:
    gateway.has_plans(f"{API}-standard")
    for _ in range(2):
        gateway.has_keys(ACME)
        gateway.takes("create_usage_plan_key", PUT)
    with gateway.script:
        for _ in range(2):
            gateway.keys.ensure("acme", plan="standard")
        gateway.script.assert_no_pending_responses()


def test_listings_are_read_to_their_end(gateway: Gateway) -> None:
    gateway.script.add_response("get_usage_plans", {"items": [], "position": "p"}, PLANS)
    page = {"items": [{"id": "plan_1", "name": f"{API}-standard"}]}
    gateway.script.add_response("get_usage_plans", page, PLANS | {"position": "p"})
    gateway.has_keys(ACME)
    gateway.takes("create_usage_plan_key", PUT)
    gateway.ensure()


def test_of_two_that_make_the_same_key_the_later_takes_the_earliers(gateway: Gateway) -> None:
    gateway.has_plans(f"{API}-standard")
    gateway.has_keys(f"{ACME}0")
    gateway.refuses("create_api_key", "ConflictException")
    gateway.has_keys(ACME, f"{ACME}0")
    gateway.takes("create_usage_plan_key", PUT)
    gateway.ensure()


def test_a_key_that_is_on_a_plan_already_stays_there_be_it_another(gateway: Gateway) -> None:
    gateway.has_plans(f"{API}-standard")
    gateway.has_keys(ACME)
    gateway.refuses("create_usage_plan_key", "ConflictException")
    gateway.ensure()


def test_a_plan_that_the_stage_does_not_have_is_our_own_fault(gateway: Gateway) -> None:
    gateway.has_plans(f"{API}-standard")
    with pytest.raises(OwnFaultError, match="no usage plan platinum"):
        gateway.ensure("platinum")


@pytest.mark.parametrize("code", ["TooManyRequestsException", "LimitExceededException", "AccessDenied"])
@pytest.mark.parametrize("call", ["create_api_key", "create_usage_plan_key"])
def test_whatever_else_it_refuses_is_our_own_fault(gateway: Gateway, call: str, code: str) -> None:
    gateway.has_plans(f"{API}-standard")
    gateway.has_keys(*([ACME] if call == "create_usage_plan_key" else []))
    gateway.refuses(call, code)
    with pytest.raises(OwnFaultError) as refused:
        gateway.ensure()
    assert isinstance(refused.value.__cause__, ClientError)
