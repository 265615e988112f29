"""B1, B2, B3: the CPU and the wall time of `deliver`, with all that it asks of AWS, per delivery.

The handler as Lambda starts it; AWS and the endpoints are processes of their own on loopback.

    python -m tests.bench.deliver_cpu
"""

import io
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from hookkeeper.adapters.tls_context import tls_context
from hookkeeper.domain.tenancy import SubscriptionKey

from tests.bench import stage
from tests.bench.bare import BareHttpx, BareSmall
from tests.bench.conventional import Conventional
from tests.bench.counting_aws import in_process
from tests.bench.endpoints import SLOW_SECONDS, endpoints
from tests.bench.harness import Result, cpu_seconds, medians, micros, report, wall_seconds

BATCH = 10
ROUNDS = 25
BATCHES_A_ROUND = 4

GOALS = {"new": (0.75, 3.0), "kept": (0.35, 8.0)}
"""By connection: at most so much of bare httpx, at least so many times less than the conventional handler."""

WALL_GOALS = {10: 1.25, 50: 2.0}


@dataclass(slots=True)
class Bench:
    """The variants of one kind of connection: all send to the same ten endpoints."""

    deliver: stage.Started
    keys: Sequence[SubscriptionKey]
    urls: Sequence[str]
    certificate: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def messages(self, count: int = BATCH) -> dict[str, Any]:
        wanted = itertools.islice(itertools.cycle(self.keys), count)
        return stage.deliver_event([stage.a_message(key, f"evt_{next(self.numbers)}") for key in wanted])

    def per_delivery(self, run: Callable[[dict[str, Any]], object]) -> Callable[[], float]:
        """CPU seconds of one delivery; the messages are made before the clock starts."""

        def measure() -> float:
            batches = [self.messages() for _ in range(BATCHES_A_ROUND)]
            with redirect_stdout(io.StringIO()):
                spent = sum(cpu_seconds(lambda batch=batch: run(batch)) for batch in batches)  # type: ignore[misc]
            return spent / BATCHES_A_ROUND / BATCH

        return measure

    def measured(self) -> dict[str, float]:
        tls = tls_context(extra_ca_file=str(self.certificate))
        httpx_loop, small = BareHttpx(tls), BareSmall(tls)
        by_id = {key.subscription_id: url for key, url in zip(self.keys, self.urls, strict=True)}
        client = httpx.Client(verify=tls, trust_env=False)
        usual = Conventional(client, urls=by_id, log=io.StringIO())
        headers, body = {f"header-{n}": "x" * 30 for n in range(9)}, stage.a_body(1)
        try:
            return medians(
                {
                    "deliver": self.per_delivery(self.deliver),
                    "httpx": self.per_delivery(lambda _: httpx_loop.send(self.urls, headers, body)),
                    "small": self.per_delivery(lambda _: small.send(self.urls, headers, body)),
                    "conventional": self.per_delivery(lambda event: usual.handler(event, stage.Context())),
                },
                rounds=ROUNDS,
            )
        finally:
            httpx_loop.close()
            small.close()
            client.close()


def main() -> None:
    report(results())


def results() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder, in_process() as aws:
        certificate, key = stage.trusted_files(Path(folder))
        stage.point_boto3_at(aws)
        with endpoints(certificate, key) as base_url:
            deliver = stage.start_deliver(
                aws,
                extra_ca_file=str(certificate),
                allowed_private_cidrs=("127.0.0.0/8", "::1/128"),
                allowed_hosts=("localhost",),
            )
            keys = stage.keys(3 * BATCH + 20)
            paths = [f"/new/{n}" for n in range(BATCH)] + [f"/kept/{n}" for n in range(BATCH)]
            paths += [f"/slow/{n}" for n in range(BATCH + 20)]
            urls = [base_url + path for path in paths]
            stage.subscribe(keys, urls=urls)
            for n, kind in enumerate(("new", "kept")):
                part = slice(n * BATCH, (n + 1) * BATCH)
                yield from of_cpu(kind, Bench(deliver, keys[part], urls[part], certificate).measured())
            yield from of_wall(Bench(deliver, keys[2 * BATCH :], urls[2 * BATCH :], certificate))


def of_cpu(kind: str, spent: dict[str, float]) -> Iterator[Result]:
    of_httpx, of_conventional = GOALS[kind]
    told = {f"{name}_us": micros(seconds) for name, seconds in spent.items()}
    connection = {"new": "a new TLS connection each", "kept": "kept connections"}[kind]
    yield Result(
        bench="B1",
        what=f"CPU of deliver over bare httpx, {connection}",
        ratio=spent["deliver"] / spent["httpx"],
        goal=of_httpx,
        numbers=told | {"over_small": round(spent["deliver"] / spent["small"], 2)},
    )
    yield Result(
        bench="B2",
        what=f"CPU of a conventional handler over deliver, {connection}",
        ratio=spent["conventional"] / spent["deliver"],
        goal=of_conventional,
        at_most=False,
        numbers=told,
    )


def of_wall(bench: Bench) -> Iterator[Result]:
    """Of the whole invocation, its reads and writes included."""

    def wall(count: int) -> Callable[[], float]:
        def measure() -> float:
            events = [bench.messages(min(25, count - start)) for start in range(0, count, 25)]
            with redirect_stdout(io.StringIO()):
                return max(wall_seconds(lambda event=event: bench.deliver(event)) for event in events)  # type: ignore[misc]

        return measure

    for count, seconds in medians({str(n): wall(n) for n in WALL_GOALS}, rounds=9).items():
        yield Result(
            bench="B3",
            what=f"wall of {count} deliveries to endpoints of 100 ms",
            ratio=seconds / SLOW_SECONDS,
            goal=WALL_GOALS[int(count)],
            numbers={"ms": round(1000 * seconds)},
        )


if __name__ == "__main__":
    main()
