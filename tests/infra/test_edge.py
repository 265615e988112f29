"""What a stage may have before its API, and has not unless the context asks: a name, a firewall, plans."""

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_apigateway as apigateway

from infra.config import DEFAULT_PLAN, Plan, StageRefusedError, stage_config
from infra.domain import Domain
from infra.firewall import Firewall

CERTIFICATE = "arn:aws:acm:eu-west-1:123456789012:certificate/0f3b"
BODY_RULES = {
    "SizeRestrictions_BODY",
    "CrossSiteScripting_BODY",
    "GenericLFI_BODY",
    "GenericRFI_BODY",
    "EC2MetaDataSSRF_BODY",
    "Log4JRCE_BODY",
    "JavaDeserializationRCE_BODY",
}


def config(**context: Any) -> Any:
    return stage_config(({"stage": "prod", "sender": "webhooks@example.com"} | context).get)


@pytest.fixture(scope="module")
def edge() -> assertions.Template:
    stack = cdk.Stack(cdk.App(), "Edge")
    rest = apigateway.RestApi(stack, "Rest", cloud_watch_role=False)
    rest.root.add_method("GET", apigateway.MockIntegration())
    Domain(stack, "Domain", name="hooks.example.com", certificate_arn=CERTIFICATE, rest=rest)
    Firewall(stack, "Firewall", rest=rest)
    return assertions.Template.from_stack(stack)


def test_nothing_stands_before_the_api_unless_it_is_asked_for(prod: Any) -> None:
    types = {resource["Type"] for resource in prod.resources.values()}
    assert not types & {"AWS::ApiGateway::DomainName", "AWS::WAFv2::WebACL"}


def test_the_name_serves_the_stage_from_its_root_over_tls_1_2(edge: assertions.Template) -> None:
    edge.has_resource_properties(
        "AWS::ApiGateway::DomainName",
        {
            "DomainName": "hooks.example.com",
            "RegionalCertificateArn": CERTIFICATE,
            "SecurityPolicy": "TLS_1_2",
            "EndpointConfiguration": {"Types": ["REGIONAL"]},
        },
    )
    (mapping,) = edge.find_resources("AWS::ApiGateway::BasePathMapping").values()
    assert "BasePath" not in mapping["Properties"]
    edge.has_output(
        "ApiDomainTarget", {"Value": {"Fn::GetAtt": [assertions.Match.any_value(), "RegionalDomainName"]}}
    )


def test_the_firewall_stands_before_the_stage_and_lets_an_events_data_be_what_it_is(
    edge: assertions.Template,
) -> None:
    (acl,) = edge.find_resources("AWS::WAFv2::WebACL").values()
    rules = acl["Properties"]["Rules"]
    assert [rule["Priority"] for rule in rules] == list(range(len(rules)))
    groups = [r["Statement"]["ManagedRuleGroupStatement"] for r in rules if "OverrideAction" in r]
    assert {group["VendorName"] for group in groups} == {"AWS"}
    counted = {rule["Name"] for group in groups for rule in group["RuleActionOverrides"]}
    assert counted == BODY_RULES | {"NoUserAgent_HEADER"}
    edge.resource_count_is("AWS::WAFv2::WebACLAssociation", 1)


def test_one_address_that_floods_is_blocked_and_the_default_is_to_let_in(edge: assertions.Template) -> None:
    (acl,) = edge.find_resources("AWS::WAFv2::WebACL").values()
    flood = acl["Properties"]["Rules"][0]
    assert flood["Action"] == {"Block": {}}
    assert flood["Statement"]["RateBasedStatement"]["AggregateKeyType"] == "IP"
    assert flood["Statement"]["RateBasedStatement"]["Limit"] >= 1000
    assert acl["Properties"]["DefaultAction"] == {"Allow": {}}


def test_a_stage_has_what_its_context_asks_for() -> None:
    asked = config(
        domain_name="hooks.example.com",
        certificate_arn=CERTIFICATE,
        firewall="on",
        plans='{"gold": {"requests_per_second": 200, "burst": 400, "requests_per_day": 1000000}}',
    )
    assert (asked.domain_name, asked.certificate_arn, asked.firewall) == (
        "hooks.example.com",
        CERTIFICATE,
        True,
    )
    assert asked.plans == {"standard": DEFAULT_PLAN, "gold": Plan(200, 400, 1_000_000)}
    assert (config().domain_name, config().firewall, config().plans) == (
        None,
        False,
        {"standard": DEFAULT_PLAN},
    )


def test_the_standard_plan_may_be_another() -> None:
    assert config(plans={"standard": {"requests_per_second": 5, "burst": 9}}).plans == {
        "standard": Plan(5, 9)
    }


@pytest.mark.parametrize(
    "context",
    [
        {"domain_name": "hooks.example.com"},
        {"certificate_arn": CERTIFICATE},
        {"firewall": "perhaps"},
        {"plans": "gold"},
        {"plans": "[1]"},
        {"plans": {"gold": 5}},
        {"plans": {"gold": {"rate": 5}}},
        {"plans": {"gold": {"requests_per_second": 0, "burst": 5}}},
        {"plans": {"gold": {"requests_per_second": 5, "burst": 0}}},
        {"plans": {"gold": {"requests_per_second": "5", "burst": 9}}},
        {"plans": {"gold,silver": {"requests_per_second": 5, "burst": 9}}},
        {"plans": {"operators": {"requests_per_second": 5, "burst": 9}}},
    ],
)
def test_a_context_that_makes_no_sense_is_refused_in_a_sentence(context: dict[str, Any]) -> None:
    with pytest.raises(StageRefusedError):
        config(**context)
