package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// raw asks for a DevTools client's command under an epoch.
func (r *rig) raw(id core.ActionID, epoch core.Epoch, method, params string) {
	r.t.Helper()
	r.daemonSends(wire.Action{
		Action: id, Epoch: epoch, Class: core.Write, DeadlineMs: 20000, Expect: core.Expect{Tab: 1}, UploadDir: r.t.TempDir(),
		Act: wire.Act{Verb: "cdp", Method: method, Params: json.RawMessage(params)}, Raw: true,
	})
}

// Commands leave in the order in which they came, none waits for another, and answers
// keep their place among events.
func TestRawCommandsKeepTheirOrder(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	const n = 200
	for i := range n {
		r.raw(core.ActionID(fmt.Sprint("A", i)), 7, "Runtime.evaluate", fmt.Sprintf(`{"expression":"%d"}`, i))
	}
	var last wire.Cmd
	for i := range n {
		c := r.getCmd()
		if want := fmt.Sprintf(`{"expression":"%d"}`, i); string(c.Params) != want || !c.Effect || !c.Script {
			t.Fatalf("step %d: %s, %+v", i, c.Params, c)
		}
		last = c
	}
	event := func(k int) string {
		return fmt.Sprintf(`{"t":"cdp.event","nonce":"n1","epoch":7,"tab":1,"document":"D1","method":"E%d","params":{}}`, k)
	}
	r.extensionSendsRaw([]byte(event(1)))
	r.ok(last, `{"result":{"value":1}}`)
	r.extensionSendsRaw([]byte(event(2)))
	if got := string(<-r.d); got != event(1) {
		t.Fatalf("first %s", got)
	}
	var answer wire.CDPAnswer
	into(t, <-r.d, &answer)
	if answer.Action != core.ActionID(fmt.Sprint("A", n-1)) || string(answer.Result) != `{"result":{"value":1}}` || answer.Observed.Document != "D1" {
		t.Fatalf("the answer: %+v", answer)
	}
	// The event does not wait for the last word on the action.
	rest := []string{string(<-r.d), string(<-r.d)}
	if rest[0] != event(2) && rest[1] != event(2) || !strings.Contains(rest[0]+rest[1], `"state":"finished"`) {
		t.Fatalf("then %s", rest)
	}
}

// A fence ends what is under way: nothing that it saw is told.
func TestAFenceEndsRawCommands(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	r.raw("A1", 7, "Runtime.evaluate", `{"expression":"1"}`)
	c := r.getCmd()
	r.daemonSends(wire.Fence{Nonce: r.nonce, Epoch: 8})
	r.extensionGets("fence")
	r.ok(c, `{"result":{"value":"secret"}}`)
	r.extensionSends(wire.Fenced{Nonce: r.nonce, Epoch: 8, Instance: "I"})
	if got := string(<-r.d); !strings.Contains(got, `"fenced"`) {
		t.Fatalf("before the acknowledgement came %s", got)
	}
	if d := r.getDone(); d.State == "finished" || len(d.Result) > 0 {
		t.Fatalf("%+v", d)
	}
	r.raw("A2", 7, "Runtime.evaluate", `{"expression":"1"}`)
	for {
		body := <-r.d
		if strings.Contains(string(body), "secret") || strings.Contains(string(body), "cdp.answer") {
			t.Fatalf("told after the fence: %s", body)
		}
		if strings.Contains(string(body), `"A2"`) {
			if !strings.Contains(string(body), `"state":"refused"`) || !strings.Contains(string(body), "fenced") {
				t.Fatalf("%s", body)
			}
			return
		}
	}
}

// What the table does not allow is not handed over; what it allows is held to the lease.
func TestRawCommandsAreHeldToTheTable(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	for i, tt := range []struct{ method, params, says string }{
		{"Network.getAllCookies", `{}`, "cookies"},
		{"Page.crash", `{}`, "policy"},
		{"No.such", `{}`, "policy"},
		{"Page.navigate", `{"url":"chrome://settings"}`, "policy"},
		{"Page.navigate", `{"url":"file:///etc/passwd"}`, "policy"},
		{"Page.navigate", `{"URL":"https://shop.test/"}`, "policy"},
		{"DOM.setFileInputFiles", `{"files":["/etc/passwd"]}`, "upload"},
		{"Input.dispatchDragEvent", `{"type":"drop","x":1,"y":1,"data":{"items":[],"dragOperationsMask":1,"files":["/etc/passwd"]}}`, "upload"},
		{"Runtime.evaluate", `[1]`, "invalid"},
		{"Input.dispatchKeyEvent", `{"type":"keyDown","commands":["paste"]}`, "policy"},
	} {
		r.raw(core.ActionID(fmt.Sprint("A", i)), 7, tt.method, tt.params)
		d := r.getDone()
		if d.State != "refused" || d.Error == nil || !strings.Contains(string(d.Error.Code)+d.Error.Message, tt.says) {
			t.Errorf("%s %s: %s %+v", tt.method, tt.params, d.State, d.Error)
		}
	}
	r.raw("B0", 7, "Input.dispatchDragEvent", `{"type":"drop","x":1,"y":1,"data":{"items":[],"dragOperationsMask":1,"files":[]}}`)
	if c := r.getCmd(); c.Method != "Input.dispatchDragEvent" || !c.Effect {
		t.Errorf("a drop without files: %+v", c)
	}
	r.raw("B1", 7, "Page.createIsolatedWorld", `{"frameId":"F","grantUniveralAccess":true}`)
	if c := r.getCmd(); string(c.Params) != `{"frameId":"F"}` {
		t.Errorf("a world: %s", c.Params)
	}
}

// The word that nobody waits can be there before the command itself.
func TestACommandThatNobodyWaitsForIsNotBegun(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	r.daemonSends(wire.ActionStop{Action: "A1", Epoch: 7})
	r.raw("A1", 7, "Runtime.evaluate", `{"expression":"1"}`)
	if d := r.getDone(); d.State != "refused" || d.Steps.Dispatched != 0 {
		t.Fatalf("%+v", d)
	}
}

// Nobody waits any more: the host says at once what is known.
func TestTheWaitForACommandIsEnded(t *testing.T) {
	r := newRig(t)
	r.start()
	r.link(7)
	r.raw("A1", 7, "Runtime.evaluate", `{"expression":"1"}`)
	r.getCmd()
	r.daemonSends(wire.ActionStop{Action: "A1", Epoch: 6})
	r.daemonSends(wire.ActionStop{Action: "A1", Epoch: 7})
	if d := r.getDone(); d.State != "halted" || d.Steps.Dispatched != 1 {
		t.Fatalf("%+v", d)
	}
}
