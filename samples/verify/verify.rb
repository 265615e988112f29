# Verify a request of Hookkeeper's (Standard Webhooks) with Ruby's standard library alone.

require "json"
require "openssl"

TOLERANCE_SECONDS = 300

# `body` is what came over the wire, before anything parses it; `headers` have lower-case names.
def verified?(secret, headers, body, now)
  id, timestamp = headers.fetch("webhook-id", ""), headers.fetch("webhook-timestamp", "")
  return false unless timestamp.match?(/\A[0-9]+\z/) && (now - timestamp.to_i).abs <= TOLERANCE_SECONDS

  key = secret.delete_prefix("whsec_").unpack1("m0")
  digest = OpenSSL::HMAC.digest("SHA256", key, "#{id}.#{timestamp}.".b + body.b)
  expected = "v1,#{[digest].pack("m0")}"
  # During a rotation there are two, parted by a space; one that is right is enough.
  headers.fetch("webhook-signature", "").split(" ").any? { |given| OpenSSL.secure_compare(given, expected) }
end

request = JSON.parse($stdin.read)
now = request.fetch("now", Time.now.to_i)
exit verified?(request["secret"], request["headers"], request["body"], now)
