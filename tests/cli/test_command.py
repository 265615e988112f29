"""Every command explains itself, reaches what it was told to reach, and ends with the status it deserves."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError
from hookkeeper.api import ProblemItem
from typer.main import get_command

from infra.cli.main import app
from tests.cli.conftest import OPERATOR_KEY, TENANT_KEY, URL, Bench
from tests.cli.shapes import page, subscription, tenant

SUB = "sub_" + "1".rjust(26, "0")


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, each in getattr(group, "commands", {}).items():
        yield from commands(each, (*path, name))


@pytest.mark.parametrize("path", list(commands(get_command(app))), ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...], bench: Bench) -> None:
    ran = bench.run(*path, "--help")
    assert ran.code == 0
    assert "Usage:" in ran.out
    leaf = path not in {other[:-1] for other in commands(get_command(app)) if other}
    assert not leaf or "--json" in ran.out


@pytest.mark.parametrize(
    "status, code, exit_code",
    [
        (400, "invalid_cursor", 1),
        (401, "unauthorized", 1),
        (403, "forbidden", 1),
        (404, "not_found", 3),
        (409, "illegal_transition", 4),
        (412, "stale_version", 4),
        (413, "too_large", 1),
        (422, "invalid_value", 1),
        (428, "if_match_required", 1),
        (429, "throttled", 1),
        (500, "internal_error", 1),
        (503, "unavailable", 1),
    ],
)
def test_a_problem_is_told_in_its_own_words_and_ends_as_it_should(
    status: int, code: str, exit_code: int, bench: Bench
) -> None:
    items = [ProblemItem(pointer="/a/b", code="wrong_type", detail="should be text")]
    bench.api.refuse("GET", f"/v1/subscriptions/{SUB}", status, code, "what went wrong", errors=items)
    ran = bench.run("subscriptions", "get", SUB)
    assert (ran.code, ran.out) == (exit_code, "")
    for part in ("✗ what went wrong", "/a/b should be text (wrong_type)", code, "request req-1", str(status)):
        assert part in ran.err


def test_a_problem_is_json_on_stderr_where_json_was_asked_for(bench: Bench) -> None:
    bench.api.refuse("GET", f"/v1/subscriptions/{SUB}", 404, "not_found", "no such subscription")
    ran = bench.run("subscriptions", "get", SUB, "--json")
    assert (ran.code, ran.out) == (3, "")
    assert '"code": "not_found"' in ran.err
    assert '"request_id": "req-1"' in ran.err


@pytest.mark.parametrize(
    "fault", [httpx.ConnectError("refused"), httpx.ReadTimeout("too slow"), httpx.RemoteProtocolError("cut")]
)
def test_no_answer_is_a_sentence_that_says_where_from(fault: Exception, bench: Bench) -> None:
    bench.api.on("GET", "/v1/subscriptions", fault)
    ran = bench.run("subscriptions", "list")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"✗ no answer from {URL}: {fault}\n"


def test_a_page_that_is_no_api_is_named_as_such(bench: Bench) -> None:
    bench.api.answers["GET", "/v1/subscriptions"] = [lambda _: httpx.Response(200, html="<h1>Hi</h1>")]
    ran = bench.run("subscriptions", "list")
    assert ran.code == 1
    assert "is this the API's URL?" in ran.err


@pytest.mark.parametrize(
    "code, exit_code",
    [
        ("AccessDenied", 1),
        ("ResourceNotFoundException", 3),
        ("AWS.SimpleQueueService.NonExistentQueue", 3),
        ("ConflictException", 4),
    ],
)
def test_what_aws_refuses_is_a_sentence(code: str, exit_code: int, bench: Bench) -> None:
    class Sqs:
        def get_queue_attributes(self, **_: Any) -> Any:
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, "GetQueueAttributes")

    bench.has_local_stack()
    bench.aws["sqs"] = Sqs()
    ran = bench.run("redrive")
    assert (ran.code, ran.out) == (exit_code, "")
    assert code in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("subscriptions", "get"),
        ("subscriptions", "get", SUB, "--nonsense"),
        ("subscriptions", "list", "--status", "asleep"),
        ("subscriptions", "create", "https://a.example/in", "--type", "*"),
        (
            "subscriptions",
            "create",
            "https://a.example",
            "-t",
            "*",
            "--owner",
            "a@b.example",
            "--header",
            "x",
        ),
        ("deliveries", "list", SUB, "--limit", "0"),
        ("emit", "a.b", "--data", "[1]"),
        ("emit", "a.b", "--data", "{"),
        ("emit", "a.b", "--data", "@no-such-file"),
        ("emit", "a.b", "--count", "0"),
        ("emit", "a.b", "--via", "pigeon"),
        ("keys", "create"),
        ("keys", "create", "--tenant", "acme", "--scope", "operator"),
        ("subscriptions", "revoke", SUB),
        ("keys", "revoke", "key_1", "--tenant", "acme"),
        ("listen", "--path", "hooks"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_a_usage_error(arguments: tuple[str, ...], bench: Bench) -> None:
    bench.api.on("GET", f"/v1/subscriptions/{SUB}", subscription(), etag='"3"')
    ran = bench.run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err
    assert all(request.method == "GET" for request in bench.api.requests)


# ── whom it speaks to ────────────────────────────────────────────────────────────────────────────


def test_a_tenants_key_names_no_tenant(bench: Bench) -> None:
    bench.environment["HOOKKEEPER_TENANT"] = "acme"
    bench.api.on("GET", "/v1/subscriptions", page())
    assert bench.run("subscriptions", "list").code == 0
    headers = bench.api.requests[0].headers
    assert headers["authorization"] == f"Bearer {TENANT_KEY}"
    assert "hookkeeper-tenant" not in headers


def test_an_operator_names_tenant_and_mode_by_option_or_environment(bench: Bench) -> None:
    bench.environment |= {"HOOKKEEPER_KEY": OPERATOR_KEY, "HOOKKEEPER_TENANT": "acme"}
    bench.api.on("GET", "/v1/subscriptions", page())
    bench.run("subscriptions", "list")
    bench.run("subscriptions", "list", "--tenant", "umbrella", "--mode", "test")
    named = [(r.headers["hookkeeper-tenant"], r.headers["hookkeeper-mode"]) for r in bench.api.requests]
    assert named == [("acme", "live"), ("umbrella", "test")]


def test_an_operator_without_a_tenant_is_told_so_before_anything_is_asked(bench: Bench) -> None:
    bench.environment["HOOKKEEPER_KEY"] = OPERATOR_KEY
    ran = bench.run("subscriptions", "list")
    assert ran.code == 2
    assert "--tenant" in ran.err
    assert not bench.api.requests


def test_without_url_and_key_the_local_stack_is_spoken_to_as_its_operator(bench: Bench) -> None:
    bench.environment = {}
    bench.has_local_stack()
    bench.api.on("GET", "/local/v1/tenants", page(tenant()))
    assert bench.run("tenants", "list").code == 0
    assert bench.api.requests[0].headers["authorization"] == f"Bearer {OPERATOR_KEY}"


def test_the_local_operator_key_goes_nowhere_else(bench: Bench) -> None:
    bench.environment = {"HOOKKEEPER_URL": "https://elsewhere.test"}
    bench.has_local_stack()
    ran = bench.run("tenants", "list")
    assert ran.code == 2
    assert "no key" in ran.err
    assert not bench.api.requests


def test_nothing_to_speak_to_says_how_to_have_it(bench: Bench) -> None:
    bench.environment = {}
    ran = bench.run("tenants", "list")
    assert ran.code == 2
    assert "hookkeeper up" in ran.err


def test_a_cloudformation_stack_says_where_its_api_is(bench: Bench) -> None:
    class CloudFormation:
        def describe_stacks(self, **asked: str) -> Any:
            assert asked == {"StackName": "Hookkeeper-prod"}
            return {"Stacks": [{"Outputs": [{"OutputKey": "ApiUrl", "OutputValue": f"{URL}/prod"}]}]}

    bench.environment = {"HOOKKEEPER_STACK": "Hookkeeper-prod", "HOOKKEEPER_KEY": TENANT_KEY}
    bench.has_local_stack()
    bench.aws["ordinary cloudformation"] = CloudFormation()
    bench.api.on("GET", "/prod/v1/subscriptions", page())
    assert bench.run("subscriptions", "list").code == 0


def test_ids_cannot_lead_to_another_path(bench: Bench) -> None:
    bench.run("deliveries", "get", "../tenants?x=1#y")
    assert bench.api.requests[0].url.raw_path == b"/v1/deliveries/..%2Ftenants%3Fx%3D1%23y"


def test_a_list_is_read_page_by_page_up_to_what_was_asked_for(bench: Bench) -> None:
    first = page(*(tenant(f"t{n}") for n in range(100)), cursor="next")
    second = page(*(tenant(f"t{n}") for n in range(100, 150)), cursor="more")
    bench.api.on("GET", "/v1/tenants", first, second)
    ran = bench.run("tenants", "list", "--limit", "150", "--json")
    assert [line["id"] for line in ran.lines] == [f"t{n}" for n in range(150)]
    queries = [dict(request.url.params) for request in bench.api.requests]
    assert queries == [{"limit": "100"}, {"limit": "50", "cursor": "next"}]
    assert "there are more" in ran.err


def test_words_of_others_cannot_command_the_terminal(bench: Bench) -> None:
    evil = tenant() | {"name": "\x1b[31m[red]\x07\x9b2J\u202e"}
    bench.api.on("GET", "/v1/tenants", page(evil))
    out = bench.run("tenants", "list").out
    assert not set(out) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "[red]" in out
