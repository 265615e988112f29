// Verify a request of Hookkeeper's (Standard Webhooks) with Node's own modules alone.

import { createHmac, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";

const TOLERANCE_SECONDS = 300;

/** `body` is what came over the wire (a Buffer), before anything parses it; `headers` have lower-case names. */
export function verified(secret, headers, body, now) {
  const { "webhook-id": id = "", "webhook-timestamp": timestamp = "", "webhook-signature": given = "" } = headers;
  if (!/^[0-9]+$/.test(timestamp) || Math.abs(now - Number(timestamp)) > TOLERANCE_SECONDS) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const hmac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body);
  const expected = Buffer.from(`v1,${hmac.digest("base64")}`);
  // During a rotation there are two, parted by a space; one that is right is enough.
  return given.split(" ").some((each) => {
    const signature = Buffer.from(each);
    return signature.length === expected.length && timingSafeEqual(signature, expected);
  });
}

const request = JSON.parse(readFileSync(0, "utf8"));
const now = request.now ?? Date.now() / 1000;
process.exit(verified(request.secret, request.headers, Buffer.from(request.body), now) ? 0 : 1);
