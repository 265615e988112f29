"""Consents, the catalogue, links into the console, risks and the fuse: asked of the API, and shown."""

from dataclasses import replace

import pytest
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.fuse import FuseState

from tests.builders import HOUR, MINUTE, NOW, a_scope
from tests.cli import shapes
from tests.cli.conftest import OPERATOR_KEY, Bench
from tests.cli.shapes import page

LINK = "https://api.hookkeeper.test/console/open?token=abc"


@pytest.fixture
def operator(bench: Bench) -> Bench:
    bench.environment |= {"HOOKKEEPER_KEY": OPERATOR_KEY, "HOOKKEEPER_TENANT": "acme"}
    return bench


def test_a_consent_is_granted_listed_and_withdrawn_after_a_yes(operator: Bench) -> None:
    given = Consent(
        scope=a_scope(),
        application_id="erp_sync",
        grants={"invoice.*": NOW - HOUR},
        granted_by="ada",
        granted_at=NOW - HOUR,
    )
    withdrawn = replace(given, withdrawn_at=NOW - MINUTE)
    operator.api.on("POST", "/v1/consents", shapes.consent(given), status=201)
    operator.api.on("GET", "/v1/consents", page(shapes.consent(given), shapes.consent(withdrawn)))
    operator.api.on("DELETE", "/v1/consents/erp_sync", shapes.consent(withdrawn))
    assert "erp_sync" in operator.run("consents", "grant", "erp_sync", "-t", "invoice.*", "--by", "ada").out
    assert operator.api.bodies == [
        {"application_id": "erp_sync", "event_types": ["invoice.*"], "granted_by": "ada"}
    ]
    listed = operator.run("consents", "list").out
    assert "withdrawn 1 min ago" in listed
    assert "1 h ago" in listed
    refused = operator.run("consents", "withdraw", "erp_sync")
    assert refused.code == 2
    assert "say --yes" in refused.err
    assert all(request.method != "DELETE" for request in operator.api.requests)
    done = operator.run("consents", "withdraw", "erp_sync", "--yes", "--json")
    assert done.json["withdrawn_at"] is not None


def test_the_catalogue_is_written_listed_and_read(operator: Bench) -> None:
    listed = shapes.event_type(json_schema={"type": "object"}, strict=True)
    operator.api.on("PUT", "/v1/event-types/invoice.paid", listed)
    operator.api.on("GET", "/v1/event-types", page(listed, shapes.event_type("order.made")))
    operator.run(
        "event-types", "put", "invoice.paid", "--schema", '{"type": "object", "x": 1.10}', "--strict"
    )
    body = {"description": "", "strict": True, "json_schema": {"type": "object", "x": 1.1}}
    assert operator.api.bodies == [body]
    assert b'"x":1.10' in operator.api.requests[0].content
    out = operator.run("event-types", "list", "--pattern", "invoice.*").out
    assert "enforced" in out
    assert operator.api.requests[-1].url.params["pattern"] == "invoice.*"
    assert '"type": "object"' in operator.run("event-types", "get", "invoice.paid").out


def test_an_event_type_that_is_not_listed_is_not_found(bench: Bench) -> None:
    bench.api.on("GET", "/v1/event-types", page())
    assert bench.run("event-types", "get", "no.such").code == 3


def test_a_link_into_the_console_is_all_that_stands_on_stdout(operator: Bench) -> None:
    operator.api.on("POST", "/v1/portal-sessions", shapes.portal_session(LINK), status=201)
    ran = operator.run("portal-sessions", "create", "--minutes", "10")
    assert ran.out == f"{LINK}\n"
    assert "in 5 min" in ran.err
    assert operator.api.bodies == [{"ttl_seconds": 600, "tenant_id": "acme", "mode": "live"}]


def test_a_tenants_key_says_for_whom_the_link_is(bench: Bench) -> None:
    bench.api.on("POST", "/v1/portal-sessions", shapes.portal_session(LINK), status=201)
    assert bench.run("portal-sessions", "create", "--json").json["url"] == LINK
    assert bench.api.bodies == [{"ttl_seconds": 3600}]


def test_who_is_at_risk_is_told_with_the_arithmetic(operator: Bench) -> None:
    operator.environment.pop("HOOKKEEPER_TENANT")
    operator.api.on("GET", "/v1/operations/at-risk", page(shapes.at_risk()))
    ran = operator.run("at-risk")
    assert ran.code == 0
    for part in ("acme test", "24", "13 h ago", "502", "retryable: 25 of 25, 13 h of 12 h"):
        assert part in ran.out
    assert "hookkeeper-tenant" not in operator.api.requests[0].headers


@pytest.mark.parametrize(
    "state, says",
    [
        (FuseState(), ("fuse open", "0 of 5 hosts in 10 min")),
        (
            FuseState(let_through={f"h{n}": NOW - MINUTE for n in range(5)}),
            ("fuse full", "5 of 5 hosts in 10 min"),
        ),
        (
            FuseState(latched_at=NOW - MINUTE, canary_at=NOW - MINUTE, canary_answered=False),
            ("fuse latched", "silent, 1 min ago"),
        ),
    ],
    ids=["open", "full", "latched"],
)
def test_the_fuse_says_whether_suspensions_pass(
    state: FuseState, says: tuple[str, ...], operator: Bench
) -> None:
    operator.api.on("GET", "/v1/operations/fuse", shapes.fuse(state))
    out = operator.run("fuse").out
    assert all(part in out for part in says)


def test_completion_is_offered_for_the_shells_people_use(bench: Bench) -> None:
    told = bench.run("--help").out
    assert "--install-completion" in told
    assert "--show-completion" in told
