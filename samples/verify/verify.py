"""Verify a request of Hookkeeper's (Standard Webhooks) with Python's standard library alone."""

import base64
import hashlib
import hmac
import json
import sys
import time

TOLERANCE_SECONDS = 300


def verified(secret: str, headers: dict, body: bytes, now: float) -> bool:
    """`body` is what came over the wire, before anything parses it; `headers` have lower-case names."""
    webhook_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not (timestamp.isascii() and timestamp.isdigit() and abs(now - int(timestamp)) <= TOLERANCE_SECONDS):
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    # During a rotation there are two, parted by a space; one that is right is enough.
    given = headers.get("webhook-signature", "").encode().split(b" ")
    return any(hmac.compare_digest(expected, each) for each in given)


if __name__ == "__main__":
    request = json.load(sys.stdin)
    now = request.get("now", time.time())
    sys.exit(0 if verified(request["secret"], request["headers"], request["body"].encode(), now) else 1)
