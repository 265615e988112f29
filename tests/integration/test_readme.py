"""The README's own words: its curl walk is run as it stands."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from infra.local.receiver import Behaviour, Receiver
from infra.local.stack import Stack
from tests.integration.customer import Customer

pytestmark = pytest.mark.integration

README = (Path(__file__).parents[2] / "README.md").read_text()
WALK, BY_HAND = re.findall(r"```sh\n(.*?)```", README.split("## By hand")[1].split("\n## ")[0], re.DOTALL)


def run(script: str, **environment: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_walk_by_curl_alone_ends_with_a_delivery_and_health(stack: Stack, receiver: Receiver) -> None:
    script = WALK.replace("https://localhost:8443/hooks", receiver.url("/hooks")).replace("acme", "readme")
    told = run(script, API=stack.api_url, OPERATOR_KEY=stack.operator_key)
    assert '"succeeded"' in told
    assert '"consecutive_failures":0' in told.replace(" ", "")


def test_a_challenge_is_posted_back_by_curl(stack: Stack, receiver: Receiver) -> None:
    customer = Customer.sign_up(stack, receiver, "readme-by-hand")
    receiver.behave(Behaviour(status=404), path=customer.path)
    customer.subscribe(trust=False)
    customer.wait("challenge", lambda: any(each.path == customer.path for each in receiver.received))
    (challenge,) = [each for each in receiver.received if each.path == customer.path]
    told = run(
        "json='content-type: application/json'\n" + BY_HAND,
        API=stack.api_url,
        KEY=customer.api.key,
        SUBSCRIPTION=customer.subscription_id,
        CHALLENGE=challenge.event["data"]["challenge"],
    )
    assert '"active"' in told
