"""Every role holds what it uses: no wildcard, no change to the audit, secrets sealed and opened by few."""

from typing import Any

import pytest

SENDS = {
    "Authorizer": set(),
    "Api": {"Events", "Deliveries", "Contacts"},
    "FanOut": {"Events", "Deliveries", "Rejected"},
    "Deliver": {"Deliveries", "Backfill"},
    "Console": {"Events", "Deliveries", "Backfill", "Notices", "Contacts"},
    "Contact": set(),
    "Recover": {"Backfill"},
    "Notify": set(),
    "Sweep": {"Deliveries", "Backfill", "Notices"},
}
TENANTS_TABLES = ("Subscriptions", "Deliveries", "Events", "Secrets", "Notices")
CHANGES = {
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:BatchWriteItem",
    "dynamodb:PartiQLInsert",
    "dynamodb:PartiQLUpdate",
    "dynamodb:PartiQLDelete",
}


def _table(prod: Any, name: str) -> str:
    return f"<{prod.output(f'Table{name}')}.Arn>"


def _tenant_role(prod: Any) -> str:
    (role,) = (id_ for id_ in prod.of("AWS::IAM::Role") if "TenantRole" in id_)
    return str(role)


def _archive(prod: Any) -> str:
    return f"<{prod.output('ArchiveBucketName')}.Arn>/events/*"


def test_no_role_holds_a_wildcard_but_objects_of_the_archive(prod: Any) -> None:
    for grant in prod.grants():
        assert not [action for action in grant.actions if "*" in action]
        assert not [r for r in grant.resources if "*" in r and r != _archive(prod)]


def test_no_function_role_borrows_a_managed_policy(prod: Any) -> None:
    borrowers = {id_ for id_, role in prod.of("AWS::IAM::Role").items() if role.get("ManagedPolicyArns")}
    assert [id_ for id_ in borrowers if "CloudWatchRole" not in id_] == []


def test_nobody_can_change_or_remove_an_audit_record(prod: Any) -> None:
    assert prod.actions_on(_table(prod, "Audit")) == {"dynamodb:PutItem", "dynamodb:Query"}


def test_the_api_alone_reads_the_audit(prod: Any) -> None:
    readers = {
        grant.role
        for grant in prod.grants()
        if "dynamodb:Query" in grant.actions and _table(prod, "Audit") in grant.resources
    }
    assert readers == {prod.role_of("Api"), _tenant_role(prod)}


def test_nobody_scans_or_speaks_partiql(prod: Any) -> None:
    used = {action for grant in prod.grants() for action in grant.actions}
    assert not [action for action in used if "Scan" in action or "PartiQL" in action]


@pytest.mark.parametrize("function, queues", SENDS.items())
def test_a_function_sends_to_its_queues_alone(prod: Any, function: str, queues: set[str]) -> None:
    sent = {
        name
        for name, id_ in prod.outputs("Queue").items()
        if "sqs:SendMessage" in prod.actions_on(f"<{id_}.Arn>", prod.role_of(function))
    }
    assert sent == queues


def test_due_items_of_all_tenants_are_the_sweeps_alone(prod: Any) -> None:
    readers = {grant.role for grant in prod.grants() for r in grant.resources if r.endswith("/index/due")}
    assert readers == {prod.role_of("Sweep")}


def test_sealing_is_for_those_who_rotate_and_opening_only_for_those_who_sign(prod: Any) -> None:
    allowed: dict[str, set[str]] = {}
    for grant in prod.grants():
        for action in grant.actions:
            if action.startswith("kms:"):
                allowed.setdefault(action, set()).add(grant.role)
    assert allowed == {
        "kms:GenerateDataKey": {prod.role_of(name) for name in ("Api", "Console")},
        "kms:Decrypt": {prod.role_of(name) for name in ("Api", "Console", "Deliver", "Contact")},
    }


def test_the_secrets_table_is_read_only_for_those_who_sign(prod: Any) -> None:
    holders = {grant.role for grant in prod.grants() if _table(prod, "Secrets") in grant.resources}
    assert holders == {_tenant_role(prod), prod.role_of("Deliver"), prod.role_of("Contact")}
    for function in ("Deliver", "Contact"):
        assert not prod.actions_on(_table(prod, "Secrets"), prod.role_of(function)) & {
            *CHANGES,
            "dynamodb:PutItem",
        }


def test_the_archive_is_written_by_fan_out_and_read_by_those_who_deliver_what_is_owed(prod: Any) -> None:
    holders = {grant.role: grant.actions for grant in prod.grants() if _archive(prod) in grant.resources}
    assert holders == {
        prod.role_of("FanOut"): ("s3:PutObject",),
        prod.role_of("Deliver"): ("s3:GetObject",),
        prod.role_of("Recover"): ("s3:GetObject",),
        prod.role_of("Sweep"): ("s3:GetObject",),
    }


def test_api_and_console_touch_tenants_items_only_in_a_session_of_that_tenant_and_mode(prod: Any) -> None:
    for table in TENANTS_TABLES:
        for function in ("Api", "Console"):
            assert not prod.actions_on(_table(prod, table), prod.role_of(function))
    for grant in prod.grants(_tenant_role(prod)):
        assert grant.conditions == {
            "ForAllValues:StringLike": {
                "dynamodb:LeadingKeys": ["${aws:PrincipalTag/tenant}#${aws:PrincipalTag/mode}#*"]
            },
            "Null": {"dynamodb:LeadingKeys": "false"},
        }


def test_the_tenant_role_is_taken_by_api_and_console_alone_and_never_without_tags(prod: Any) -> None:
    (statement,) = prod.resources[_tenant_role(prod)]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    borrowers = set(map(prod.literal, statement["Principal"]["AWS"]))
    assert borrowers == {f"<{prod.role_of(name)}.Arn>" for name in ("Api", "Console")}
    assert statement["Condition"] == {
        "Null": {"aws:RequestTag/tenant": "false", "aws:RequestTag/mode": "false"}
    }


def test_the_console_writes_sessions_and_counts_into_the_access_table_and_never_a_key(prod: Any) -> None:
    access = _table(prod, "Access")
    writing = [
        grant
        for grant in prod.grants(prod.role_of("Console"))
        if access in grant.resources and set(grant.actions) & {*CHANGES, "dynamodb:PutItem"}
    ]
    assert len(writing) == 1
    assert writing[0].conditions == {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["session#*", "portal#*", "rate#*"]},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }


def test_the_embedded_aws_enforces_the_very_same_policies(prod: Any, local: Any) -> None:
    def policies(synthesised: Any) -> list[Any]:
        return [(p["PolicyDocument"], p["Roles"]) for p in synthesised.of("AWS::IAM::Policy").values()]

    assert policies(local) == policies(prod)


def test_mail_is_sent_as_the_sender_alone(prod: Any) -> None:
    (grant,) = (g for g in prod.grants() if "ses:SendEmail" in g.actions)
    assert grant.role == prod.role_of("Notify")
    assert all(":identity/" in r or ":configuration-set/" in r for r in grant.resources)


def test_who_suspends_reads_and_writes_the_fuse_and_nothing_beside_it_in_its_table(prod: Any) -> None:
    access = _table(prod, "Access")
    for function in ("Deliver", "Sweep"):
        held = {
            (action, tuple(grant.conditions["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]))
            for grant in prod.grants(prod.role_of(function))
            if access in grant.resources
            for action in grant.actions
        }
        fuse = {("dynamodb:GetItem", ("fuse",)), ("dynamodb:UpdateItem", ("fuse",))}
        assert held - {("dynamodb:BatchGetItem", ("tenant#*",))} == fuse
        assert (held == fuse) is (function == "Deliver"), "the sweep counts the hosts of all tenants"
