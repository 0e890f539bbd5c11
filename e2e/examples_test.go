package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/cli/demo"
)

// The examples that the README leads to, as they are there.
func TestExamples(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	must(t, k.Release(k.ctx))
	k.Lease = nil
	home, _ := demo.InHome()
	at := filepath.Join(home.Bin(), examplesDir)
	for name, command := range map[string]string{
		"playwright": "exec node " + filepath.Join(at, "playwright.mjs"), "puppeteer": "exec node " + filepath.Join(at, "puppeteer.mjs"),
		"chromedp": "exec " + filepath.Join(at, "chromedp", "chromedp"), "curl": "exec sh " + filepath.Join(at, "curl.sh"),
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasSuffix(command, ".mjs") {
				(&desk{t: t}).clients()
			}
			if _, err := exec.LookPath("curl"); name == "curl" && err != nil {
				t.Skip("NOT RUN: curl is missing")
			}
			cmd, out := k.runs(command + " " + k.page + "?example=" + name)
			if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "button · Small Shop admin") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
