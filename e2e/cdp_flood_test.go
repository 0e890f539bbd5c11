package e2e

import (
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/cdp"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// A page whose events flood the browser is cut off: the client is told, the fence that
// stands behind those events is acknowledged, and the next client goes on.
func TestAFloodOfEvents(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	x := k.tool(k.cdpURL())
	page := x.page()
	x.want(page, "Runtime.enable", struct{}{})
	x.want(page, "Runtime.evaluate", evaluation("globalThis.flood = setInterval(() => { for (let i = 0; i < 200; i++) console.log('z'.repeat(2000)) }, 10), 1"))
	began := time.Now()
	for x.open() && time.Since(began) < 30*time.Second {
		time.Sleep(20 * time.Millisecond)
	}
	if x.open() {
		t.Error("the client was not told within 30 s")
	} else if c := x.closed(); c.Code != cdp.CloseSlow || !strings.Contains(c.Reason, "its debugging was ended") {
		t.Errorf("closed with %d %q", c.Code, c.Reason)
	}
	t.Logf("cut off after %v", time.Since(began))

	y := k.again()
	if got := y.value(y.page(), "1+1"); got != 2.0 {
		t.Errorf("the next client: %v", got)
	}
	began = time.Now()
	st, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
	must(t, err)
	t.Logf("the takeover took %v", time.Since(began))
	if f := st.Authority.Fence; f == "pending" || f == "unacknowledged" {
		t.Errorf("the fence is %s", f)
	}
}
