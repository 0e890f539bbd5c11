package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
)

// The hand opens an extension's real popup and presses it: the page takes the
// press for a person's, and a button that appears later is waited for.
func TestHandPressesTheRealPopup(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	within, cancel := context.WithTimeout(l.ctx, factsDeadline)
	defer cancel()
	hand, err := demo.NewHand(within, l.pipe, "chrome-extension://")
	must(t, err)
	must(t, hand.Press(within, demo.ButtonTakeover))
	_, err = hand.WaitText(within, "Pressed by hand.")
	must(t, err)
	must(t, hand.Choose(within, "list", "ada"))
	must(t, hand.Press(within, "later"))
	_, err = hand.WaitText(within, "Later, for ada.")
	must(t, err)

	short, cancel := context.WithTimeout(within, 8*time.Second)
	defer cancel()
	if err := hand.Press(short, "nothing"); err == nil || !strings.Contains(err.Error(), "it is not there") {
		t.Errorf("pressing what is not there: %v", err)
	}
}
