package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"sessiondock.dev/sessiondock/daemon/cdp"
	"sessiondock.dev/sessiondock/daemon/client"
	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// tool is a DevTools client of the barest kind.
type tool struct {
	t    *testing.T
	ctx  context.Context
	conn *websocket.Conn

	mu    sync.Mutex
	next  int
	got   []frame
	ended error         // why reading has ended
	news  chan struct{} // closed and made anew with each frame
}

// frame is an answer or an event.
type frame struct {
	ID      int             `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *wire.CDPError  `json:"error"`
	Session string          `json:"sessionId"`
}

// dialTool connects, and returns the answer of the server where it refuses.
func dialTool(ctx context.Context, address string, header http.Header) (*websocket.Conn, int, string) {
	conn, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPHeader: header})
	if err == nil {
		return conn, http.StatusSwitchingProtocols, ""
	}
	if resp == nil {
		return nil, 0, err.Error()
	}
	text, _ := io.ReadAll(resp.Body)
	return nil, resp.StatusCode, string(text)
}

func (k *desk) tool(address string) *tool {
	k.t.Helper()
	conn, status, text := dialTool(k.ctx, address, nil)
	if conn == nil {
		k.t.Fatalf("connect: %d %s", status, text)
	}
	conn.SetReadLimit(128 << 20)
	x := &tool{t: k.t, ctx: k.ctx, conn: conn, news: make(chan struct{})}
	k.t.Cleanup(func() { conn.CloseNow() })
	go x.read()
	return x
}

func (x *tool) read() {
	for {
		_, body, err := x.conn.Read(x.ctx)
		var f frame
		if err == nil {
			err = json.Unmarshal(body, &f)
		}
		x.mu.Lock()
		if err != nil {
			x.ended = err
		} else {
			x.got = append(x.got, f)
		}
		close(x.news)
		x.news = make(chan struct{})
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// send sends a command and returns its number.
func (x *tool) send(session, method string, params any) (int, error) {
	x.mu.Lock()
	x.next++
	id := x.next
	x.mu.Unlock()
	m := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	body, err := json.Marshal(m)
	must(x.t, err)
	return id, x.conn.Write(x.ctx, websocket.MessageText, body)
}

// find waits for a frame.
func (x *tool) find(what string, good func(frame) bool) frame {
	x.t.Helper()
	limit := time.After(60 * time.Second)
	for at := 0; ; {
		x.mu.Lock()
		for ; at < len(x.got); at++ {
			if good(x.got[at]) {
				f := x.got[at]
				x.mu.Unlock()
				return f
			}
		}
		news, ended := x.news, x.ended
		x.mu.Unlock()
		if ended != nil {
			x.t.Fatalf("the socket was closed before %s: %v", what, ended)
		}
		select {
		case <-news:
		case <-limit:
			x.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// ask sends a command and waits for its answer.
func (x *tool) ask(session, method string, params any) frame {
	x.t.Helper()
	id, err := x.send(session, method, params)
	must(x.t, err)
	return x.find("the answer to "+method, func(f frame) bool { return f.ID == id })
}

// want asks and wants no error.
func (x *tool) want(session, method string, params any) json.RawMessage {
	x.t.Helper()
	f := x.ask(session, method, params)
	if f.Error != nil || f.Session != session {
		x.t.Fatalf("%s: %+v, on session %q", method, f.Error, f.Session)
	}
	return f.Result
}

// page attaches to the lease's first tab.
func (x *tool) page() string {
	x.t.Helper()
	x.want("", "Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true})
	var m struct {
		Session string `json:"sessionId"`
	}
	must(x.t, json.Unmarshal(x.find("a page", func(f frame) bool { return f.Method == "Target.attachedToTarget" }).Params, &m))
	return m.Session
}

// value evaluates an expression.
func (x *tool) value(session, expression string) any {
	x.t.Helper()
	var r struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
	}
	must(x.t, json.Unmarshal(x.want(session, "Runtime.evaluate", evaluation(expression)), &r))
	return r.Result.Value
}

func evaluation(expression string) map[string]any {
	return map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}
}

// answered waits for the answer to a command, and says false if the socket ends first.
func (x *tool) open() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ended == nil
}

func (x *tool) answered(id int) bool {
	for at := 0; ; {
		x.mu.Lock()
		for ; at < len(x.got); at++ {
			if x.got[at].ID == id {
				x.mu.Unlock()
				return true
			}
		}
		news, ended := x.news, x.ended
		x.mu.Unlock()
		if ended != nil {
			return false
		}
		<-news
	}
}

// closed waits for the end of the socket.
func (x *tool) closed() websocket.CloseError {
	x.t.Helper()
	for limit := time.After(30 * time.Second); ; {
		x.mu.Lock()
		news, ended := x.news, x.ended
		x.mu.Unlock()
		if ended != nil {
			var c websocket.CloseError
			if !errors.As(ended, &c) {
				x.t.Fatalf("the socket ended without a code: %v", ended)
			}
			return c
		}
		select {
		case <-news:
		case <-limit:
			x.t.Fatal("the socket was not closed")
		}
	}
}

// answers counts the answers to commands.
func (x *tool) answers(ids []int) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range x.got {
		for _, id := range ids {
			if f.ID == id {
				n++
			}
		}
	}
	return n
}

// With commands in flight a takeover closes the socket, with a reason; nothing is sent
// from then on, nothing that was under way gets an answer, and the address is dead.
func TestATakeoverClosesTheClient(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "product", "delay=0")
	old := k.cdpURL()
	x := k.tool(old)
	page := x.page()
	var hanging []int
	for range 100 {
		id, err := x.send(page, "Runtime.evaluate", evaluation("new Promise(() => {})"))
		must(t, err)
		hanging = append(hanging, id)
	}
	save := fmt.Sprintf("fetch('/s/%s/save?kind=fetch&delay=0', {method: 'POST'}).then(() => 1)", k.name)
	if got := x.value(page, save); got != 1.0 {
		t.Fatalf("a save: %v", got)
	}
	// Saves without end, five at a time, until the socket says no.
	const atATime = 5
	var sent atomic.Int64
	var savers sync.WaitGroup
	for range atATime {
		savers.Go(func() {
			for {
				id, err := x.send(page, "Runtime.evaluate", evaluation(save))
				if err != nil {
					return
				}
				sent.Add(1)
				if !x.answered(id) {
					return
				}
			}
		})
	}
	if !k.site.WaitSaves(k.ctx, k.name, 20) {
		t.Fatal("the client did not get to work")
	}
	_, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
	must(t, err)
	before := k.site.Count(k.name).Total
	c := x.closed()
	if c.Code != cdp.CloseFenced || !strings.Contains(c.Reason, "took over") {
		t.Errorf("closed with %d %q", c.Code, c.Reason)
	}
	savers.Wait()
	if n := x.answers(hanging); n != 0 {
		t.Errorf("%d commands that were under way were answered", n)
	}
	if conn, status, text := dialTool(k.ctx, old, nil); conn != nil || status != http.StatusForbidden || !strings.Contains(text, "took over") {
		t.Errorf("again: %d %q", status, text)
	}
	resp, err := http.Get(k.httpURL() + "/json/version")
	must(t, err)
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(text), "person") {
		t.Errorf("by HTTP: %d %q", resp.StatusCode, text)
	}
	// What had been dispatched may still arrive, and nothing else: the requests of five
	// commands at the most.
	k.status("the drain", func(s *core.Status) bool { return s.Authority.Fence == "drained" })
	time.Sleep(500 * time.Millisecond)
	if after := int64(k.site.Count(k.name).Total); after > int64(before)+atATime || after > sent.Load()+1 {
		t.Errorf("%d saves at the takeover, %d a little later; %d were asked for", before, after, sent.Load()+1)
	}
}

// After a handback the agent has a new address, and the old one stays dead.
func TestAHandbackGivesANewAddress(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	old := k.cdpURL()
	x := k.tool(old)
	if got := x.value(x.page(), "1+1"); got != 2.0 {
		t.Errorf("before: %v", got)
	}
	_, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
	must(t, err)
	if c := x.closed(); c.Code != cdp.CloseFenced {
		t.Errorf("closed with %d %q", c.Code, c.Reason)
	}
	k.await("the handback", func() bool { return k.handBack() == nil })
	must(t, k.Resume(k.ctx, 30*time.Second))
	if k.cdpURL() == old {
		t.Error("the address is the same at another epoch")
	}
	if conn, status, _ := dialTool(k.ctx, old, nil); conn != nil || status != http.StatusForbidden {
		t.Errorf("the old address: %d", status)
	}
	y := k.tool(k.cdpURL())
	if got := y.value(y.page(), "1+1"); got != 2.0 {
		t.Errorf("after the handback: %v", got)
	}
}

// handBack gives the slot back to the desk's agent, whatever is listed as open.
func (k *desk) handBack() error {
	_, err := k.d.Control.Change(k.ctx, k.slot(), client.Handback, wire.ChangeRequest{To: "ada", Confirm: true, By: "test"})
	return err
}

// One client at a time, unless a second asks for it; each sees the contexts that were
// there before it came.
func TestASecondClientSeesWhatIsThere(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	x := k.tool(k.cdpURL())
	page := x.page()
	x.want(page, "Runtime.enable", struct{}{})
	x.find("a context", func(f frame) bool { return f.Method == "Runtime.executionContextCreated" })
	if conn, status, text := dialTool(k.ctx, k.cdpURL(), nil); conn != nil || status != http.StatusConflict || !strings.Contains(text, "beside") {
		t.Errorf("a second one: %d %q", status, text)
	}
	y := k.tool(k.cdpURL() + "?beside")
	its := y.page()
	if its == page {
		t.Error("two clients share a session's name")
	}
	y.want(its, "Runtime.enable", struct{}{})
	y.find("a context of the second client", func(f frame) bool { return f.Method == "Runtime.executionContextCreated" && f.Session == its })
	// What one switches off stays on for the other.
	y.want(its, "Runtime.disable", struct{}{})
	x.want(page, "Runtime.evaluate", evaluation("console.log('still here')"))
	x.find("the console", func(f frame) bool { return f.Method == "Runtime.consoleAPICalled" })
	must(t, y.conn.Close(websocket.StatusNormalClosure, ""))
	must(t, x.conn.Close(websocket.StatusNormalClosure, ""))
	// The next one comes as the first.
	var z *tool
	k.await("room for the next client", func() bool {
		conn, _, _ := dialTool(k.ctx, k.cdpURL(), nil)
		if conn == nil {
			return false
		}
		z = &tool{t: t, ctx: k.ctx, conn: conn, news: make(chan struct{})}
		return true
	})
	defer z.conn.CloseNow()
	go z.read()
	again := z.page()
	z.want(again, "Runtime.enable", struct{}{})
	z.find("a context of the next client", func(f frame) bool { return f.Method == "Runtime.executionContextCreated" })
	if got := z.value(again, "1+1"); got != 2.0 {
		t.Errorf("the next client: %v", got)
	}
}

// The way in which browser-use connects: by HTTP, all targets by discovery, each attached
// by name; automatic attachment only later. After a takeover it tries three times.
func TestAClientThatAttachesByName(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	resp, err := http.Get(k.httpURL() + "/json/version")
	must(t, err)
	var version map[string]string
	must(t, json.NewDecoder(resp.Body).Decode(&version))
	resp.Body.Close()
	if !strings.HasPrefix(version["Browser"], "Chrome/") || version["User-Agent"] == "" {
		t.Errorf("version: %v", version)
	}
	x := k.tool(version["webSocketDebuggerUrl"])
	x.want("", "Target.setDiscoverTargets", map[string]any{"discover": true})
	x.find("a target", func(f frame) bool { return f.Method == "Target.targetCreated" })
	var all struct {
		Infos []struct {
			ID       string `json:"targetId"`
			Type     string `json:"type"`
			Attached bool   `json:"attached"`
			Context  string `json:"browserContextId"`
		} `json:"targetInfos"`
	}
	must(t, json.Unmarshal(x.want("", "Target.getTargets", struct{}{}), &all))
	if len(all.Infos) != 1 || all.Infos[0].Type != "page" || all.Infos[0].Attached || all.Infos[0].Context == "" {
		t.Fatalf("targets: %+v", all.Infos)
	}
	var at struct {
		Session string `json:"sessionId"`
	}
	must(t, json.Unmarshal(x.want("", "Target.attachToTarget", map[string]any{"targetId": all.Infos[0].ID, "flatten": true}), &at))
	for _, method := range []string{"Page.enable", "Network.enable", "Runtime.enable"} {
		x.want(at.Session, method, struct{}{})
	}
	x.want(at.Session, "Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true})
	x.want("", "Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true})
	if got := x.value(at.Session, "1+1"); got != 2.0 {
		t.Errorf("it says %v", got)
	}
	// A tab of its own: announced, and then answered.
	var made struct {
		ID string `json:"targetId"`
	}
	id, err := x.send("", "Target.createTarget", map[string]any{"url": k.page, "newWindow": true})
	must(t, err)
	answer := x.find("the new tab", func(f frame) bool { return f.ID == id })
	must(t, json.Unmarshal(answer.Result, &made))
	x.mu.Lock()
	announced := 0
	for _, f := range x.got {
		if f.ID == id {
			break
		}
		if f.Method == "Target.attachedToTarget" && strings.Contains(string(f.Params), made.ID) {
			announced++
		}
	}
	x.mu.Unlock()
	if announced != 1 {
		t.Errorf("the new tab was announced %d times before its answer", announced)
	}
	x.want("", "Target.closeTarget", map[string]any{"targetId": made.ID})
	x.find("its end", func(f frame) bool {
		return f.Method == "Target.targetDestroyed" && strings.Contains(string(f.Params), made.ID)
	})
	_, err = k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
	must(t, err)
	x.closed()
	for range 3 {
		if conn, status, text := dialTool(k.ctx, version["webSocketDebuggerUrl"], nil); conn != nil || status != http.StatusForbidden || text == "" {
			t.Errorf("again: %d %q", status, text)
		}
	}
}

// While many commands are under way, and whatever else the client does, the fence is
// acknowledged at once.
func TestAFenceWithManyCommandsUnderWay(t *testing.T) {
	t.Parallel()
	k := openDesk(t, "button", "")
	var took []time.Duration
	for range 5 {
		x := k.tool(k.cdpURL())
		page := x.page()
		for range 100 {
			_, err := x.send(page, "Runtime.evaluate", evaluation("new Promise((done) => setTimeout(done, 3000))"))
			must(t, err)
		}
		x.want(page, "Page.getLayoutMetrics", struct{}{})
		began := time.Now()
		st, err := k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
		must(t, err)
		took = append(took, time.Since(began))
		if st.Authority.Fence == "pending" || st.Authority.Fence == "unacknowledged" {
			t.Errorf("the fence is %s", st.Authority.Fence)
		}
		if c := x.closed(); c.Code != cdp.CloseFenced {
			t.Errorf("closed with %d %q", c.Code, c.Reason)
		}
		// Whether those scripts go on is not known, and nobody but a person says that it may be.
		k.status("the drain", func(s *core.Status) bool { return s.Authority.Fence == "drained" })
		k.await("the end of all that can end", func() bool {
			open, err := k.d.Control.Actions(k.ctx, k.slot(), true)
			return err == nil && !slices.ContainsFunc(open, func(r core.Record) bool { return r.Local == core.Running })
		})
		if _, err := k.d.Control.Change(k.ctx, k.slot(), client.LiftQuarantine, wire.ChangeRequest{Note: "looked at the page", By: "test"}); err != nil && codeOf(err) != core.CodeConflict {
			t.Fatal(err)
		}
		k.await("the handback", func() bool { return k.handBack() == nil })
		must(t, k.Resume(k.ctx, 30*time.Second))
	}
	t.Logf("with 100 commands under way a takeover took %v", took)
}

// A client floods its page with commands and a person takes over in the middle; then the
// agent goes on by every door. The page counts, and from the acknowledgement on its count
// stands still. LATER is how many commands are tried after it.
func TestNothingIsDispatchedAfterAFence(t *testing.T) {
	t.Parallel()
	later := 2_000
	if n, err := strconv.Atoi(os.Getenv("LATER")); err == nil {
		later = n
	}
	k := openDesk(t, "button", "")
	k.dial()
	pipe := k.hand.Pipe()
	at, err := pipe.WaitTarget(k.ctx, "page", k.page)
	must(t, err)
	own, err := pipe.Attach(k.ctx, at.ID)
	must(t, err)
	count := func() (n int) {
		t.Helper()
		must(t, pipe.Eval(k.ctx, own, "globalThis.seen", &n))
		return n
	}
	must(t, pipe.Eval(k.ctx, own, "globalThis.seen = 0", nil))

	x := k.tool(k.cdpURL())
	page := x.page()
	flood := make(chan int)
	go func() {
		var ids []int
		for {
			id, err := x.send(page, "Runtime.evaluate", map[string]any{"expression": "seen++"})
			if err != nil {
				break
			}
			// A hundred without an answer; with many more the endpoint would end it.
			for ids = append(ids, id); len(ids) > 100 && !x.answered(ids[len(ids)-100]) && x.open(); {
				time.Sleep(time.Millisecond)
			}
			if !x.open() {
				break
			}
		}
		flood <- len(ids)
	}()
	k.await("the flood", func() bool { return count() > 100 })
	epoch := k.Lease.Epoch
	_, err = k.d.Control.Change(k.ctx, k.slot(), client.Takeover, wire.ChangeRequest{By: "test"})
	must(t, err)
	k.status("the acknowledgement", func(s *core.Status) bool {
		return s.Authority.Epoch > epoch && s.Authority.Fence != "pending" && s.Authority.Fence != "unacknowledged"
	})
	before := count()

	var refused, other atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range later / 16 {
				if i%100 == 0 {
					if conn, status, _ := dialTool(k.ctx, k.Lease.CDPURL, nil); conn != nil || status != http.StatusForbidden {
						other.Add(1)
					}
				}
				_, err := k.Act(k.ctx, client.NewID(), wire.Act{Verb: "evaluate", Expression: "seen++"}, 0)
				if codeOf(err) == core.CodeFenced {
					refused.Add(1)
				} else {
					other.Add(1)
				}
			}
		})
	}
	all.Wait()
	sent := <-flood
	x.closed()
	k.status("the drain", func(s *core.Status) bool { return s.Authority.Fence == "drained" })
	after := count()
	t.Logf("of %d commands of the flood %d were dispatched before the acknowledgement; after it %d were refused, %d answered otherwise, %d dispatched", sent, before, refused.Load(), other.Load(), after-before)
	if after != before || other.Load() != 0 || int(refused.Load()) != later/16*16 {
		t.Errorf("something was dispatched after the fence")
	}
}
