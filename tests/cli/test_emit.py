"""Events go in by three ways, with the ids that are printed, at the pace that was asked for."""

import json
from typing import Any

import pytest
from hookkeeper.api import ProblemItem

from tests.cli.conftest import Bench

EVENTS = "/v1/events"


class Sqs:
    """Takes batches, but for the bodies that hold `bad`."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.batches: list[int] = []

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> Any:  # noqa: N803
        self.batches.append(len(Entries))
        self.sent += [(QueueUrl, entry["MessageBody"]) for entry in Entries]
        failed = [each["Id"] for each in Entries if "bad" in each["MessageBody"]]
        return {"Failed": [{"Id": n, "Code": "InternalError", "Message": "not now"} for n in failed]}


class Bus:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def put_events(self, *, Entries: list[dict[str, Any]]) -> Any:  # noqa: N803
        self.sent += Entries
        return {
            "Entries": [
                {"ErrorCode": "ThrottlingException", "ErrorMessage": "slow"}
                if "bad" in each["Detail"]
                else {}
                for each in Entries
            ]
        }


def accepted(request: Any) -> Any:
    told = json.loads(request.content)
    if "events" in told:
        return {"events": [{"id": each["id"]} for each in told["events"]]}
    return {"id": told["id"]}


def test_one_event_goes_by_the_api_and_its_id_is_printed(bench: Bench) -> None:
    bench.api.on("POST", EVENTS, accepted, status=202)
    ran = bench.run("emit", "invoice.paid", "--id", "evt_1", "--resource", "shop_7")
    assert (ran.code, ran.out) == (0, "evt_1\n")
    assert bench.api.bodies == [{"type": "invoice.paid", "data": {}, "resource_id": "shop_7", "id": "evt_1"}]


@pytest.mark.parametrize("given", ["-", "@data.json", "data.json", "text"])
def test_data_is_sent_to_the_digit_wherever_it_is_read_from(
    given: str, bench: Bench, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"amount": 1.10, "big": 123456789012345678901234567890, "name": "Zoë"}'
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.json").write_text(text)
    bench.api.on("POST", EVENTS, accepted, status=202)
    data = text if given == "text" else given
    assert bench.run("emit", "a.b", "--data", data, stdin=text).code == 0
    sent = bench.api.requests[0].content.decode()
    assert '"data":{"amount":1.10,"big":123456789012345678901234567890,"name":"Zoë"}' in sent


def test_many_go_in_batches_with_an_id_each(bench: Bench) -> None:
    bench.api.on("POST", EVENTS, accepted, status=202)
    ran = bench.run("emit", "a.b", "--count", "250", "--json")
    assert [len(body["events"]) for body in bench.api.bodies] == [100, 100, 50]
    assert len({line["id"] for line in ran.lines}) == 250
    assert all(line["accepted"] for line in ran.lines)
    assert "250 events" in ran.err


def test_a_large_one_does_not_drag_a_batch_over_the_limit(bench: Bench) -> None:
    bench.api.on("POST", EVENTS, accepted, status=202)
    data = json.dumps({"text": "x" * 200_000})
    bench.run("emit", "a.b", "--count", "40", "--data", data)
    assert max(len(request.content) for request in bench.api.requests) < 4 * 1024 * 1024


def test_ids_of_several_are_numbered(bench: Bench) -> None:
    bench.api.on("POST", EVENTS, accepted, status=202)
    assert bench.run("emit", "a.b", "-n", "3", "--id", "run7").out.split() == ["run7_1", "run7_2", "run7_3"]


def test_a_rate_is_kept(bench: Bench) -> None:
    bench.api.on("POST", EVENTS, accepted, status=202)
    bench.run("emit", "a.b", "--count", "50", "--rate", "20")
    assert [len(body["events"]) for body in bench.api.bodies] == [5] * 10
    assert sum(bench.waited) == pytest.approx(9 * 5 / 20)


def test_a_throttled_batch_is_sent_again(bench: Bench) -> None:
    bench.api.refuse("POST", EVENTS, 429, "throttled", "too many")
    bench.api.refuse("POST", EVENTS, 503, "unavailable", "not now")
    bench.api.on("POST", EVENTS, accepted, status=202)
    assert bench.run("emit", "a.b", "--id", "evt_1").code == 0
    assert bench.waited == [1, 2]
    assert len({request.content for request in bench.api.requests}) == 1


def test_some_refused_is_partly_done(bench: Bench) -> None:
    error = {"pointer": "/events/1", "code": "conflict", "detail": "the id was used for another event"}
    bench.api.on("POST", EVENTS, {"events": [{"id": "x_1"}, {"id": "x_2", "error": error}]}, status=202)
    ran = bench.run("emit", "a.b", "--count", "2", "--id", "x")
    assert (ran.code, ran.out) == (5, "x_1\n")
    assert "x_2: /events/1 the id was used for another event (conflict)" in ran.err


def test_a_batch_that_is_refused_whole_after_others_is_partly_done(bench: Bench) -> None:
    bench.api.on("POST", EVENTS, accepted, status=202)
    bench.api.refuse("POST", EVENTS, 401, "unauthorized", "the key has ended")
    ran = bench.run("emit", "a.b", "--count", "250")
    assert ran.code == 5
    assert len(ran.out.split()) == 100
    assert "the key has ended" in ran.err
    assert "100 events were refused" in ran.err


@pytest.mark.parametrize("status, code, exit_code", [(422, "invalid_type", 1), (409, "conflict", 4)])
def test_none_taken_is_the_problem_itself(status: int, code: str, exit_code: int, bench: Bench) -> None:
    item = ProblemItem(pointer="/type", code=code, detail="no")
    bench.api.refuse("POST", EVENTS, status, code, "no", errors=[item])
    ran = bench.run("emit", "NO")
    assert (ran.code, ran.out) == (exit_code, "")
    assert "✗ /type no\n" in ran.err


def test_sqs_gets_the_tenant_in_the_body_and_ten_a_batch(bench: Bench) -> None:
    bench.has_local_stack()
    sqs = bench.aws["sqs"] = Sqs()
    arguments = ["--via", "sqs", "--count", "12", "--tenant", "acme", "--mode", "test", "-d", '{"a": 1.10}']
    ran = bench.run("emit", "a.b", *arguments)
    assert ran.code == 0
    assert sqs.batches == [10, 2]
    url, body = sqs.sent[0]
    assert url == "queue:events"
    assert body == (
        f'{{"type":"a.b","data":{{"a":1.10}},"id":"{ran.out.split()[0]}","tenant_id":"acme","mode":"test"}}'
    )
    assert not bench.api.requests


def test_eventbridge_gets_the_type_beside_the_detail(bench: Bench) -> None:
    bench.has_local_stack()
    bus = bench.aws["events"] = Bus()
    ran = bench.run("emit", "a.b", "--via", "eventbridge", "--tenant", "acme", "--id", "evt_1")
    assert ran.code == 0
    assert bus.sent == [
        {
            "EventBusName": "bus",
            "Source": "hookkeeper.cli",
            "DetailType": "a.b",
            "Detail": '{"data":{},"id":"evt_1","tenant_id":"acme","mode":"live"}',
        }
    ]


@pytest.mark.parametrize("via, fake", [("sqs", Sqs), ("eventbridge", Bus)])
def test_what_aws_refuses_is_named(via: str, fake: type, bench: Bench) -> None:
    bench.has_local_stack()
    bench.aws["sqs" if via == "sqs" else "events"] = fake()
    ran = bench.run("emit", "a.b", "--via", via, "--tenant", "acme", "--id", "bad", "--json")
    assert ran.code == 1
    assert ran.lines[0]["accepted"] is False


@pytest.mark.parametrize("via", ["sqs", "eventbridge"])
def test_the_ways_beside_the_api_need_a_tenant(via: str, bench: Bench) -> None:
    bench.has_local_stack()
    assert bench.run("emit", "a.b", "--via", via).code == 2
