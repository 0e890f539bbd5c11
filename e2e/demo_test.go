package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/cli/demo"
	"sessiondock.dev/sessiondock/daemon/core"
)

// The demonstration itself, as a person would start it: every scene comes to what
// the design says of it. It runs alone, because it times what it does.
func TestDemo(t *testing.T) {
	if _, err := demo.FindChromium(); err != nil {
		t.Skip("NOT RUN: there is no chromium here")
	}
	home, in := demo.InHome()
	if !in {
		t.Fatal("the tests do not run in a home")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	// A home of its own, as for anybody who starts it: the other tests' daemon has this one.
	cmd := exec.CommandContext(ctx, filepath.Join(home.Bin(), "sessiondock"), "demo", "--json")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, demo.HomeVar+"=") })
	var out, story bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &story
	if err := cmd.Run(); err != nil {
		t.Errorf("sessiondock demo: %v\n%s", err, story.Bytes())
	}
	want := map[string]demo.Outcome{
		"late":        {SiteSaves: 1, Refused: core.CodeFenced, Local: core.Finished, Remote: core.Answered(200)},
		"busy":        {SiteSaves: 1, Refused: core.CodeFenced, Local: core.Finished, Remote: core.Answered(200)},
		"stop":        {SiteSaves: 0, Refused: core.CodeFenced, Local: core.Ended, Remote: core.NoneSeen},
		"stop-shared": {SiteSaves: 0, Refused: core.CodeFenced, Local: core.Ended, Remote: core.NoneSeen},
		"script":      {Refused: core.CodeFenced, Local: core.Finished, Remote: core.Answered(200)},
		"daemon":      {SiteSaves: 1, Refused: core.CodeFenced, Local: core.Finished, Remote: core.Answered(200)},
		"browser":     {SiteSaves: 0, Refused: core.CodeQuarantined, Local: core.LocalUnknown, Remote: core.RemoteUnknown},
	}
	for dec := json.NewDecoder(&out); dec.More(); {
		var got demo.Outcome
		must(t, dec.Decode(&got))
		w, known := want[got.Scene]
		if !known {
			t.Errorf("a scene that is not known, or came twice: %+v", got)
			continue
		}
		delete(want, got.Scene)
		w.Scene, w.EpochBefore, w.EpochAfter = got.Scene, got.EpochBefore, got.EpochAfter
		if got.Scene == "script" { // its timer posts as often as it can
			w.SiteSaves = max(got.SiteSaves, 1)
		}
		if got != w || got.EpochAfter <= got.EpochBefore {
			t.Errorf("%s came to %+v, want %+v and a higher epoch", got.Scene, got, w)
		}
	}
	for scene := range want {
		t.Errorf("scene %s was not played", scene)
	}
}
