// Verify a request of Hookkeeper's (Standard Webhooks) with Go's standard library alone.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"time"
)

const toleranceSeconds = 300

// verified wants body as it came over the wire, before anything parses it, and lower-case names of headers.
func verified(secret string, headers map[string]string, body []byte, now int64) bool {
	id, timestamp := headers["webhook-id"], headers["webhook-timestamp"]
	sent, err := strconv.ParseUint(timestamp, 10, 62)
	if err != nil || now-int64(sent) > toleranceSeconds || int64(sent)-now > toleranceSeconds {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	// During a rotation there are two, parted by a space; one that is right is enough.
	for _, given := range strings.Split(headers["webhook-signature"], " ") {
		if hmac.Equal([]byte(given), []byte(expected)) {
			return true
		}
	}
	return false
}

func main() {
	request := struct {
		Secret, Body string
		Headers      map[string]string
		Now          int64
	}{Now: time.Now().Unix()}
	if json.NewDecoder(os.Stdin).Decode(&request) != nil ||
		!verified(request.Secret, request.Headers, []byte(request.Body), request.Now) {
		os.Exit(1)
	}
}
