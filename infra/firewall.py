"""A web ACL before the API: known bad callers and inputs are blocked, and one address cannot flood it."""

from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_wafv2 as waf
from constructs import Construct

REQUESTS_PER_ADDRESS = 10_000
"""In five minutes: 33 a second from one address, of keys good and bad alike."""

_PROGRAMS_DO = ["NoUserAgent_HEADER"]
_BODIES_HOLD = [
    "SizeRestrictions_BODY",
    "CrossSiteScripting_BODY",
    "GenericLFI_BODY",
    "GenericRFI_BODY",
    "EC2MetaDataSSRF_BODY",
]
_INPUTS_HOLD = ["Log4JRCE_BODY", "JavaDeserializationRCE_BODY"]
_GROUPS = {
    "AWSManagedRulesAmazonIpReputationList": [],
    "AWSManagedRulesCommonRuleSet": _PROGRAMS_DO + _BODIES_HOLD,
    "AWSManagedRulesKnownBadInputsRuleSet": _INPUTS_HOLD,
}
"""AWS's rule groups, and which of their rules only count: an event's data may hold any text, up to 4 MiB."""


class Firewall(Construct):
    """The web ACL of the API's stage."""

    def __init__(self, scope: Construct, id_: str, *, rest: apigateway.RestApi) -> None:
        super().__init__(scope, id_)
        groups = [_group(n, name, counted) for n, (name, counted) in enumerate(_GROUPS.items(), 1)]
        acl = waf.CfnWebACL(
            self,
            "Acl",
            scope="REGIONAL",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            description="Before the API of Hookkeeper",
            rules=[_flood(), *groups],
            visibility_config=_seen("All"),
        )
        waf.CfnWebACLAssociation(
            self, "OnStage", resource_arn=rest.deployment_stage.stage_arn, web_acl_arn=acl.attr_arn
        )


def _flood() -> waf.CfnWebACL.RuleProperty:
    limit = waf.CfnWebACL.RateBasedStatementProperty(
        aggregate_key_type="IP", limit=REQUESTS_PER_ADDRESS, evaluation_window_sec=300
    )
    return waf.CfnWebACL.RuleProperty(
        name="Flood",
        priority=0,
        action=waf.CfnWebACL.RuleActionProperty(block={}),
        statement=waf.CfnWebACL.StatementProperty(rate_based_statement=limit),
        visibility_config=_seen("Flood"),
    )


def _group(priority: int, name: str, counted: list[str]) -> waf.CfnWebACL.RuleProperty:
    overrides = [
        waf.CfnWebACL.RuleActionOverrideProperty(
            name=rule, action_to_use=waf.CfnWebACL.RuleActionProperty(count={})
        )
        for rule in counted
    ]
    managed = waf.CfnWebACL.ManagedRuleGroupStatementProperty(
        vendor_name="AWS", name=name, rule_action_overrides=overrides
    )
    return waf.CfnWebACL.RuleProperty(
        name=name,
        priority=priority,
        override_action=waf.CfnWebACL.OverrideActionProperty(none={}),
        statement=waf.CfnWebACL.StatementProperty(managed_rule_group_statement=managed),
        visibility_config=_seen(name),
    )


def _seen(name: str) -> waf.CfnWebACL.VisibilityConfigProperty:
    return waf.CfnWebACL.VisibilityConfigProperty(
        cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=False
    )
