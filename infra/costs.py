"""`python -m infra.costs`: what the stack costs in a month in which nothing happens, line by line.

Counted from the template itself (alarms, queues, keys, dashboards) and from what the sweep asks each minute.
What always comes free is taken off where the account has no other use for it; the other column has none.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra import prices
from infra.prices import MONTH_MINUTES, Price

Template = Mapping[str, Any]

POLLERS = 5
"""Lambda's long polls of an idle queue, each of twenty seconds, before it scales anything."""

POLLS = POLLERS * 3 * MONTH_MINUTES

SWEEP_READS = 14
"""Read units of an idle sweep: 28 queries of an empty index, half a unit each. Counted by a test."""

SWEEP_SECONDS = 0.5
"""Billed time of an idle sweep: 25 calls of some 10 ms, one after the other, with room."""

SWEEP_STARTS_A_DAY = 6
"""How often Lambda gives a function that runs each minute a new environment; AWS promises no number."""

LINE_BYTES = 1024
"""Log of an idle sweep."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the bill; `units` a month of what the price is of."""

    what: str
    price: Price
    units: float

    @property
    def listed(self) -> float:
        return self.price.of(self.units)

    @property
    def paid(self) -> float:
        return self.price.after_free(self.units)


def idle_month(template: Template) -> list[Line]:
    """The bill of a stage that nobody uses; storage is what little the stack itself brings."""
    lanes, dead = _lanes(template), _dead_letter_queues(template)
    memory = _sweep(template)["MemorySize"] / 1024
    return [
        Line("KMS key", prices.KMS_KEY, _count(template, "AWS::KMS::Key")),
        Line("alarms", prices.ALARM, alarm_metrics(template)),
        Line("dashboards", prices.DASHBOARD, _count(template, "AWS::CloudWatch::Dashboard")),
        Line(
            f"SQS: empty polls of {lanes} queues, looks into {dead} more",
            prices.SQS_REQUEST,
            lanes * POLLS + dead * MONTH_MINUTES,
        ),
        Line("Lambda: the sweep's runs", prices.LAMBDA_REQUEST, MONTH_MINUTES),
        Line("Lambda: the sweep's time", prices.LAMBDA_GB_SECOND, MONTH_MINUTES * SWEEP_SECONDS * memory),
        Line("DynamoDB: the sweep's reads", prices.DYNAMODB_READ, MONTH_MINUTES * SWEEP_READS),
        Line("AppConfig: the sweep's polls", prices.CONFIG_REQUEST, MONTH_MINUTES),
        Line("AppConfig: documents received", prices.CONFIG_RECEIVED, 30 * SWEEP_STARTS_A_DAY),
        Line("logs", prices.LOG_GB, MONTH_MINUTES * LINE_BYTES / 1024**3),
        *_egress(template),
    ]


def _egress(template: Template) -> Iterator[Line]:
    """Only where the stage has fixed addresses."""
    gateways = _count(template, "AWS::EC2::NatGateway")
    if gateways:
        hours = gateways * prices.MONTH_HOURS
        yield Line("NAT gateways", prices.NAT_HOUR, hours)
        yield Line("fixed addresses", prices.PUBLIC_IPV4_HOUR, hours)


def alarm_metrics(template: Template) -> int:
    """What alarms are billed by: a metric each, and every metric of an expression."""
    alarms = _of(template, "AWS::CloudWatch::Alarm")
    return sum(
        sum("MetricStat" in metric for metric in alarm["Metrics"]) if "Metrics" in alarm else 1
        for alarm in alarms
    )


def _lanes(template: Template) -> int:
    """Queues that Lambda polls."""
    mappings = _of(template, "AWS::Lambda::EventSourceMapping")
    return sum("Queue" in str(mapping["EventSourceArn"]) for mapping in mappings)


def _dead_letter_queues(template: Template) -> int:
    """Queues that the sweep looks into each minute."""
    return str(_sweep(template)["Environment"]["Variables"]["HOOKKEEPER_DEAD_LETTER_QUEUES"]).count("|") // 2


def _sweep(template: Template) -> Mapping[str, Any]:
    (sweep,) = (
        function
        for function in _of(template, "AWS::Lambda::Function")
        if function.get("Environment", {}).get("Variables", {}).get("POWERTOOLS_SERVICE_NAME") == "sweep"
    )
    return sweep


def _count(template: Template, type_: str) -> int:
    return len(_of(template, type_))


def _of(template: Template, type_: str) -> list[Mapping[str, Any]]:
    resources = template["Resources"].values()
    return [each.get("Properties", {}) for each in resources if each["Type"] == type_]


def total(lines: list[Line]) -> float:
    """Dollars to pay in a month, what is always free taken off."""
    return sum(line.paid for line in lines)


def table(lines: list[Line]) -> str:
    """The bill as text."""
    rows = [f"{'an idle month, ' + prices.REGION:<60} {'units':>12} {'listed $':>9} {'to pay $':>9}"]
    rows += [f"{line.what:<60} {line.units:>12,.0f} {line.listed:>9.2f} {line.paid:>9.2f}" for line in lines]
    listed = sum(line.listed for line in lines)
    return "\n".join([*rows, f"{'sum':<60} {'':>12} {listed:>9.2f} {total(lines):>9.2f}"])


def main() -> None:
    import aws_cdk as cdk
    from aws_cdk import assertions

    from infra.app import build

    context = {"stage": "prod", "sender": "webhooks@example.com", "aws:cdk:bundling-stacks": []}
    template = assertions.Template.from_stack(build(cdk.App(context=context))).to_json()
    sys.stdout.write(
        f"{table(idle_month(template))}\n"
        f"List prices as of {prices.AS_OF}, without tax; data at rest comes on top (the first 25 GB free).\n"
    )


if __name__ == "__main__":
    main()
