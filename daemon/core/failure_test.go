package core

import "testing"

// What a person reads of a request without an answer claims no more than is known.
func TestWhatAFailedRequestIsCalled(t *testing.T) {
	for _, tt := range []struct{ method, err, want string }{
		{"POST", "net::ERR_ABORTED", "the browser gave up waiting (net::ERR_ABORTED); whether the site carried it out is not known"},
		{"GET", "net::ERR_ABORTED", "the browser gave up waiting (net::ERR_ABORTED)"},
		{"POST", "net::ERR_CONNECTION_RESET", "no answer came (net::ERR_CONNECTION_RESET); whether the site carried it out is not known"},
		{"POST", "net::ERR_CONNECTION_REFUSED", "failed: net::ERR_CONNECTION_REFUSED"},
	} {
		if got := (SeenCall{Method: tt.method, State: "failed", Error: tt.err}).failure(); got != tt.want {
			t.Errorf("%s %s: %q", tt.method, tt.err, got)
		}
	}
}
