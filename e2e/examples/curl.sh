#!/bin/sh
# sessiondock run -- ./curl.sh URL
# The agents' HTTP API, without any client. An identifier is never used twice: it is what
# the action is looked up by if its answer is lost.
act() {
	curl --silent --show-error --fail-with-body --unix-socket "$SESSIONDOCK_SOCKET" \
		-H "Authorization: Bearer $SESSIONDOCK_CAPABILITY" -H 'Content-Type: application/json' \
		-d "{\"id\":\"$(cat /proc/sys/kernel/random/uuid)\",\"epoch\":$SESSIONDOCK_EPOCH,$1}" \
		"http://localhost/v1/leases/$SESSIONDOCK_LEASE/actions"
}
act "\"verb\":\"navigate\",\"url\":\"$1\"" >/dev/null && act '"verb":"snapshot"'
