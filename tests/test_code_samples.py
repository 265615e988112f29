"""The samples for those who emit and those who receive: run in every language that this machine has."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
VERIFY = ROOT / "samples" / "verify"
VENV = ROOT / ".venv" / "bin"
CASES = json.loads((ROOT / "tests" / "vectors" / "signatures.json").read_text())["cases"]
ONE = CASES[1]

LANGUAGES = {
    "verify.py": ["python3"],
    "verify.mjs": ["node"],
    "verify.go": ["go", "run"],
    "verify.rb": ["ruby"],
}
HERE = [
    name
    for name, (program, *_) in LANGUAGES.items()
    if shutil.which(program, path=f"{VENV}:{os.defpath}:{os.environ['PATH']}")
]


def run(
    command: Sequence[str | Path], stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    path = f"{VENV}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        input=stdin,
        env=os.environ | {"PATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def verified(sample: str, case: dict[str, Any], *, secret: str | None = None, **changes: Any) -> bool:
    """Whether the sample takes the request; `changes` are headers, `body` and `now`."""
    told = {
        "secret": secret or case["secrets"][0],
        "body": changes.pop("body", case["body"]),
        "now": changes.pop("now", case["timestamp"]),
        "headers": {
            "webhook-id": case["id"],
            "webhook-timestamp": str(case["timestamp"]),
            "webhook-signature": case["signature"],
        }
        | {name.replace("_", "-"): value for name, value in changes.items()},
    }
    done = run([*LANGUAGES[sample], VERIFY / sample], json.dumps(told))
    assert (done.returncode in (0, 1), done.stderr) == (True, "")
    return done.returncode == 0


def test_every_sample_of_a_verifier_has_its_language() -> None:
    assert {path.name for path in VERIFY.iterdir()} == set(LANGUAGES)
    assert {"verify.py", "verify.mjs"} <= set(HERE), "set-up brings these two along"


@pytest.mark.parametrize("sample", HERE)
def test_a_sample_takes_what_we_sign_with_each_of_its_secrets_and_nothing_else(sample: str) -> None:
    for case in CASES:
        for secret in case["secrets"]:
            assert verified(sample, case, secret=secret), case["case"]
    other = CASES[3]["secrets"][0]
    assert not verified(sample, ONE, secret=other)
    assert verified(sample, ONE, now=ONE["timestamp"] + 300)
    for changes in (
        {"now": ONE["timestamp"] + 301},
        {"now": ONE["timestamp"] - 301},
        {"body": ONE["body"].replace("1.10", "1.1")},
        {"webhook_timestamp": "1700000000x"},
        {"webhook_signature": ""},
        {"webhook_signature": ONE["signature"][:-1]},
        {"webhook_signature": ONE["signature"].replace("v1,", "v2,")},
    ):
        assert not verified(sample, ONE, **changes), changes


@pytest.mark.parametrize("sample", LANGUAGES)
def test_a_sample_does_what_each_of_them_does(sample: str) -> None:
    """For the languages that this machine has not."""
    text = (VERIFY / sample).read_text()
    for part in (
        r"sha-?256",
        r"whsec_",
        r"v1,",
        r"300",
        r"compare_digest|timingSafeEqual|hmac\.Equal|secure_compare",
    ):
        assert re.search(part, text, re.IGNORECASE), part


FAKE_SDK = """
export class EventBridgeClient {
  async send(command) { console.log(JSON.stringify(command.input)); return ANSWER; }
}
export class PutEventsCommand { constructor(input) { this.input = input; } }
"""


@pytest.mark.parametrize(
    "answer,code", [({"Entries": [{}]}, 0), ({"Entries": [{"ErrorCode": "Throttled"}]}, 1)]
)
def test_the_typescript_producer_puts_one_entry_and_fails_where_it_was_not_taken(
    tmp_path: Path, answer: dict[str, Any], code: int
) -> None:
    """Over a stand-in for AWS's SDK, which is not installed here."""
    sdk = tmp_path / "node_modules" / "@aws-sdk" / "client-eventbridge"
    sdk.mkdir(parents=True)
    (sdk / "package.json").write_text('{"type": "module", "main": "index.js"}')
    (sdk / "index.js").write_text(FAKE_SDK.replace("ANSWER", json.dumps(answer)))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(ROOT / "samples" / "emit" / "emit.ts", tmp_path)
    done = run(["node", tmp_path / "emit.ts", "acme", "evt_1"], EVENT_BUS_NAME="bus")
    assert done.returncode == code, done.stderr
    (entry,) = json.loads(done.stdout)["Entries"]
    assert (entry["EventBusName"], entry["DetailType"]) == ("bus", "invoice.paid")
    assert json.loads(entry["Detail"])["tenant_id"] == "acme"
