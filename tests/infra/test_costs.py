"""An idle month is cheap, and its bill is counted from the template and from what is really asked."""

from typing import Any

import pytest
from hookkeeper.settings import SweepSettings

from infra import prices
from infra.costs import POLLS, SWEEP_READS, idle_month, table, total
from tests import faults
from tests.contracts.conftest import Aws, aws
from tests.functions.conftest import ColdStart, a_sample, cold_start
from tests.functions.stage import Stage, configured

__all__ = ["aws", "cold_start"]

MOST_DOLLARS = 3.50


def test_an_idle_month_costs_three_dollars_and_a_half_at_most(prod: Any) -> None:
    lines = idle_month(prod.template)
    assert 2 < total(lines) <= MOST_DOLLARS, table(lines)


def test_the_bill_is_printed_line_by_line_with_its_sum(prod: Any) -> None:
    lines = idle_month(prod.template)
    printed = table(lines).splitlines()
    assert len(printed) == len(lines) + 2
    assert printed[-1].split()[-1] == f"{total(lines):.2f}"


def test_five_queues_are_polled_and_eight_looked_into(prod: Any) -> None:
    (sqs,) = (line for line in idle_month(prod.template) if line.price is prices.SQS_REQUEST)
    assert sqs.units == 5 * POLLS + 8 * prices.MONTH_MINUTES


def test_fixed_addresses_show_on_the_bill(given: Any) -> None:
    hours = {line.what: line.units for line in idle_month(given.template)}
    assert hours["NAT gateways"] == hours["fixed addresses"] == 2 * prices.MONTH_HOURS


def test_an_idle_sweep_asks_what_the_bill_says(aws: Aws, cold_start: ColdStart) -> None:
    sweep = configured(cold_start("sweep", Stage(aws).settings(SweepSettings)))
    asked = faults.counted(sweep.module.dynamodb)
    sweep(a_sample("sweep"))
    assert set(asked) == {"Query"}
    assert asked["Query"] / 2 == SWEEP_READS


@pytest.mark.parametrize("count, dollars", [(0, 0), (1_000_000, 0), (3_500_000, 1.0)])
def test_what_is_free_is_taken_off_once(count: int, dollars: float) -> None:
    assert prices.SQS_REQUEST.after_free(count) == pytest.approx(dollars)
