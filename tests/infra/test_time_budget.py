"""A batch of deliveries always fits its function's time, however slow its endpoints are (F03)."""

from typing import Any

from hookkeeper.adapters.httpx_sender import PLACE_PATIENCE_SECONDS, START_MARGIN_SECONDS

LONGEST_TIMEOUT_SECONDS = 30
"""The most a subscription may ask for (SPEC §3)."""

READ_AND_WRITE_SECONDS = 2 + 8
"""The batch's read before its requests, and what deliver keeps back for writing."""


def test_one_round_of_the_slowest_requests_with_reads_and_writes_fits_delivers_time_out(prod: Any) -> None:
    waited = PLACE_PATIENCE_SECONDS + START_MARGIN_SECONDS
    needed = waited + LONGEST_TIMEOUT_SECONDS + READ_AND_WRITE_SECONDS
    assert needed < prod.function("Deliver")["Timeout"] / 2


def test_a_batch_stays_out_of_sight_far_longer_than_any_attempt(prod: Any) -> None:
    for queue in ("Deliveries", "Backfill"):
        visibility = prod.resources[prod.output(f"Queue{queue}")]["Properties"]["VisibilityTimeout"]
        assert visibility > 10 * LONGEST_TIMEOUT_SECONDS
