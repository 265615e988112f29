"""The demo is a test: its exit status says whether the promise held on the embedded AWS."""

import json

import pytest

from infra.local.demo import demo
from infra.local.home import CHECKOUT, Home

pytestmark = [pytest.mark.integration, pytest.mark.timeout(480)]


def test_the_promise_holds_from_first_event_to_last(capfd: pytest.CaptureFixture[str]) -> None:
    assert demo(Home(CHECKOUT / ".local" / "demo-test")) == 0
    result = json.loads(capfd.readouterr().out.strip().splitlines()[-1])
    assert result["delivered"] == result["emitted"] >= 300
    assert (result["lost"], result["duplicates"], result["suspensions"]) == (0, 0, 1)
