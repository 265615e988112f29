"""What is off by default: fixed addresses, a mail domain; and that a template is the same each time."""

import json
from typing import Any

from tests.infra.conftest import Synthesised, synthesised

OUTWARD = {"Deliver", "Contact"}


def test_by_default_there_is_no_network_of_our_own(prod: Any) -> None:
    assert not [
        type_ for type_ in (r["Type"] for r in prod.resources.values()) if type_.startswith("AWS::EC2")
    ]
    assert all("VpcConfig" not in function for function in prod.of("AWS::Lambda::Function").values())


def test_who_reaches_out_goes_by_the_fixed_addresses_and_nobody_else(given: Any) -> None:
    inside = {name for name in given.outputs("Function") if "VpcConfig" in given.function(name)}
    assert inside == OUTWARD
    (group,) = given.of("AWS::EC2::SecurityGroup")
    private = {
        id_ for id_, subnet in given.of("AWS::EC2::Subnet").items() if not subnet["MapPublicIpOnLaunch"]
    }
    for name in OUTWARD:
        config = given.function(name)["VpcConfig"]
        assert [given.literal(each) for each in config["SecurityGroupIds"]] == [f"<{group}.GroupId>"]
        assert {each["Ref"] for each in config["SubnetIds"]} == private


def test_the_addresses_are_told_and_are_those_of_the_gateways(given: Any) -> None:
    addresses = set(given.of("AWS::EC2::EIP"))
    assert set(given.outputs("StaticIp").values()) == addresses
    used = {
        given.literal(each["AllocationId"]).strip("<>").split(".")[0]
        for each in given.of("AWS::EC2::NatGateway").values()
    }
    assert used == addresses
    assert len(addresses) == 2


def test_tables_and_archive_are_reached_without_the_gateways(given: Any) -> None:
    services = {
        given.literal(each["ServiceName"]).rpartition(".")[2]
        for each in given.of("AWS::EC2::VPCEndpoint").values()
    }
    assert services == {"dynamodb", "s3"}
    assert {each["VpcEndpointType"] for each in given.of("AWS::EC2::VPCEndpoint").values()} == {"Gateway"}


def test_only_who_is_in_the_network_borrows_the_policy_for_it(given: Any, prod: Any) -> None:
    def borrowers(synthesised: Any) -> set[str]:
        return {
            id_
            for id_, role in synthesised.of("AWS::IAM::Role").items()
            if "AWSLambdaVPCAccessExecutionRole" in str(role.get("ManagedPolicyArns"))
        }

    assert borrowers(given) == {given.role_of(name) for name in OUTWARD}
    assert borrowers(prod) == set()


def test_mail_is_sent_as_an_address_or_as_a_domain_whose_records_are_told(prod: Any, given: Any) -> None:
    (address,) = prod.of("AWS::SES::EmailIdentity").values()
    (domain,) = given.of("AWS::SES::EmailIdentity").values()
    assert (address["EmailIdentity"], domain["EmailIdentity"]) == (
        "webhooks@example.com",
        "hooks.example.com",
    )
    assert {name for name in given.template["Outputs"] if name.startswith("Dkim")} == {
        "Dkim1",
        "Dkim2",
        "Dkim3",
    }
    assert not given.of("AWS::Route53::RecordSet")


def test_the_first_document_is_deployed_and_our_own_model_validates_each(given: Any) -> None:
    (version,) = given.of("AWS::AppConfig::HostedConfigurationVersion").values()
    assert json.loads(version["Content"]) == {"tenant_policies": {"acme": "patient"}}
    (profile,) = given.of("AWS::AppConfig::ConfigurationProfile").values()
    (validator,) = profile["Validators"]
    validate = given.output("FunctionValidateConfig")
    assert (validator["Type"], given.literal(validator["Content"])) == ("LAMBDA", f"<{validate}.Arn>")
    (permission,) = (
        each
        for each in given.of("AWS::Lambda::Permission").values()
        if each["Principal"] == "appconfig.amazonaws.com"
    )
    assert permission["Action"] == "lambda:InvokeFunction"
    assert given.literal(permission["FunctionName"]) == f"<{validate}.Arn>"


def test_a_document_is_stored_only_when_its_validator_may_be_asked(prod: Any) -> None:
    (profile,) = (r for r in prod.resources.values() if r["Type"] == "AWS::AppConfig::ConfigurationProfile")
    permission = next(
        id_
        for id_, each in prod.of("AWS::Lambda::Permission").items()
        if each["Principal"] == "appconfig.amazonaws.com"
    )
    assert permission in profile["DependsOn"]


def test_only_changes_and_removals_of_audit_records_wake_watch_audit(prod: Any) -> None:
    watch = prod.output("FunctionWatchAudit")
    (mapping,) = (
        each
        for each in prod.of("AWS::Lambda::EventSourceMapping").values()
        if prod.literal(each["FunctionName"]) == f"<{watch}>"
    )
    assert prod.literal(mapping["EventSourceArn"]) == f"<{prod.output('TableAudit')}.StreamArn>"
    assert mapping["FilterCriteria"]["Filters"] == [{"Pattern": '{"eventName":["MODIFY","REMOVE"]}'}]
    allowed = {action for grant in prod.grants(prod.role_of("WatchAudit")) for action in grant.actions}
    assert not [
        each
        for each in allowed
        if each.startswith("dynamodb:")
        and "Stream" not in each
        and "Shard" not in each
        and "Records" not in each
    ]


def test_production_data_cannot_be_deleted_by_mistake(prod: Any) -> None:
    for table in prod.of("AWS::DynamoDB::GlobalTable").values():
        (replica,) = table["Replicas"]
        assert replica["DeletionProtectionEnabled"] is True
    (bucket,) = prod.of("AWS::S3::Bucket").values()
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    assert {queue["SqsManagedSseEnabled"] for queue in prod.of("AWS::SQS::Queue").values()} == {True}


def test_the_bucket_refuses_plain_http(prod: Any) -> None:
    (policy,) = prod.of("AWS::S3::BucketPolicy").values()
    denied = [s for s in policy["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
    assert {"Bool": {"aws:SecureTransport": "false"}} in [s["Condition"] for s in denied]


def test_the_same_sources_give_the_same_template_to_the_hash_of_every_asset(prod: Synthesised) -> None:
    production = {"stage": "prod", "sender": "webhooks@example.com"}
    before, again = prod, synthesised(**production)
    if again.template != before.template:  # a source was edited while the tests ran: then from now on
        before, again = again, synthesised(**production)
    assert again.template == before.template
    assert "S3Key" in str(again.template)
