#!/usr/bin/env bash
# Emit an event by the HTTPS API. API is the stack's ApiUrl, KEY a tenant's key with events:write.
# What is answered with 429 or 503 is tried again, when Retry-After says; the id makes it one event all the same.
set -euo pipefail

curl --silent --show-error --fail-with-body --retry 5 "$API/v1/events" \
  --header "authorization: Bearer $KEY" --header 'content-type: application/json' \
  --data "{\"id\": \"$1\", \"type\": \"invoice.paid\", \"data\": {\"invoice\": \"in_1\", \"amount\": 1.10}}"
