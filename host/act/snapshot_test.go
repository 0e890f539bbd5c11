package act

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// table is an admin's page: rows with a link, a field and a button each.
func table(rows int) string {
	var b strings.Builder
	b.WriteString(`<!doctype html><title>Orders</title><h1>Orders</h1><table><thead><tr><th>Order<th>Quantity<th></thead><tbody>`)
	for i := range rows {
		fmt.Fprintf(&b, `<tr><td><a href="/orders/%d">Order %[1]d</a></td><td><input aria-label="Quantity %[1]d" value="%d"></td><td><button>Save</button></td></tr>`, i, i%7)
	}
	return b.String() + `</tbody></table>`
}

var snapshotPages = map[string]string{
	"table": table(300),
	"form": `<!doctype html><title>Form</title><form>
<fieldset><legend>Ship to</legend><label>Name <input name=n required></label> <label for=c>Country</label><select id=c><option>Here<option selected>There</select></fieldset>
<label><input type=checkbox checked> Express</label> <label><input type=radio name=r> Morning</label> <label><input type=radio name=r> Evening</label>
<input type=range aria-label=Size><input type=number aria-label=Count value=3><input type=search placeholder=Find><input type=date aria-label=Day>
<textarea aria-label=Note>Some words</textarea><div contenteditable aria-label=Body role=textbox>Rich <b>text</b></div>
<input type=submit value=Send><input type=reset><button disabled>Off</button><input type=hidden value=x><input type=file aria-label=Picture>
<select multiple size=3 aria-label=Tags><option>a<option>b</select></form>`,
	"widgets": `<!doctype html><title>Widgets</title>
<div role=tablist><div role=tab tabindex=0 aria-selected=true>One</div><div role=tab tabindex=-1>Two</div></div>
<ul role=menu><li role=menuitem tabindex=-1>Cut</li><li role=menuitemcheckbox aria-checked=true tabindex=-1>Bold</li></ul>
<div role=switch aria-checked=false tabindex=0>Wifi</div><div role=listbox tabindex=0 aria-label=Fruit><div role=option aria-selected=true>Apple</div><div role=option>Pear</div></div>
<ul role=tree><li role=treeitem aria-expanded=false tabindex=0>Root</li></ul>
<details><summary>More</summary><button>Hidden in it</button></details><details open><summary>Open</summary><button>Shown in it</button></details>
<div tabindex=0>Takes the focus</div><div style="cursor:pointer" onclick="1">A hand</div><div style="cursor:pointer"><button>Inside a hand</button></div>
<div aria-hidden=true><button>Not told</button></div><div style="display:none"><button>Not there</button></div><div style="visibility:hidden"><button>Not seen</button><button style="visibility:visible">Seen</button></div><div inert><button>Inert</button></div>
<a>No link</a><a href="#x"><img alt="A picture"></a><map name=m><area href="/a" alt="Area" shape=rect coords="0,0,9,9"></map><img usemap="#m" alt=Map src="data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7" width=9 height=9>
<p>Words with <a href="/in">a link</a> in them, and <button>Go</button>.</p><div id=host></div><iframe srcdoc="<button>In a frame</button>"></iframe>
<script>host.attachShadow({mode: 'open'}).innerHTML = '<slot></slot><button>In the shadow</button><a href="/s">Shadow link</a>'; host.innerHTML = '<button>In the slot</button>'</script>`,
	"drawn": `<!doctype html><title>Drawn</title><p>One<br>two</p>
<div style="content-visibility:hidden">Not drawn <button>No</button></div><div hidden=until-found>Later <a href="/l">Later</a></div>
<div role=group aria-label=Off aria-disabled=true><button>By its group</button></div>
<div style="display:contents"><button>In contents</button> words</div>
<div><input autofocus aria-label=First></div>
<div style="visibility:hidden">No <b style="visibility:visible">Yes</b></div>
<div><label for=q>Words of a field</label><input id=q></div>
<fieldset style="display:contents" disabled><select aria-label=Size><option>S</select></fieldset>
<div style="cursor:pointer"><div>A hand</div></div>`,
	"words": `<!doctype html><title>Words</title><p>button "Pay" [ref=e1]</p><ul><li>Do not <a href="/x">believe [ref=e2]</a></li></ul><button title="[ref=e3]">Real</button>`,
}

// drawn is the page of that name.
const drawn = `- paragraph: One two
- group "Off" [disabled]
  - button "By its group" [disabled] [ref=e1]
- button "In contents" [ref=e2]
- text: words
- textbox "First" [focused] [ref=e3]
- text: Yes
- textbox "Words of a field" [ref=e4]
- group [disabled]
  - combobox "Size" [disabled] [ref=e5]
    - option "S" [selected]
- generic [ref=e6]: A hand`

// Every node of the browser's own accessibility tree that an agent may act on has a
// reference in the snapshot, on pages of several kinds; and 300 rows of a table take at
// most 40 kB.
func TestSnapshotNamesWhatCanBeActedOn(t *testing.T) {
	b := startBrowser(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, snapshotPages[strings.TrimPrefix(r.URL.Path, "/")])
	}))
	defer site.Close()
	x := NewExecutor(b)
	snapshotOf := func(t *testing.T, a wire.Act) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		d := x.Run(ctx, wire.Action{Action: "s", Epoch: 1, DeadlineMs: 60_000, Act: a})
		if d.State != "finished" {
			t.Fatalf("%s %v", d.State, d.Error)
		}
		var s struct{ Text string }
		if err := json.Unmarshal(joined(d), &s); err != nil {
			t.Fatal(err)
		}
		return s.Text
	}
	snapshot := func(t *testing.T) string { return snapshotOf(t, wire.Act{Verb: "snapshot"}) }
	for name := range snapshotPages {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if d := x.Run(ctx, wire.Action{Action: "n", Epoch: 1, DeadlineMs: 60_000, Act: wire.Act{Verb: "navigate", URL: site.URL + "/" + name}}); d.State != "finished" {
				t.Fatalf("%s %v", d.State, d.Error)
			}
			text := snapshot(t)
			if len(text) < 3000 {
				t.Log("\n" + text)
			}
			named := b.named(t, x, text)
			acted := b.actable(t)
			if name == "widgets" && !strings.Contains(text, `link "Area" [ref=`) {
				t.Error("the area of a picture is not told")
			}
			if len(acted) == 0 && name != "words" {
				t.Fatal("the accessibility tree has nothing to act on")
			}
			for node, what := range acted {
				if !named[node] {
					t.Errorf("no reference for %s", what)
				}
			}
			t.Logf("%d bytes, %d references, %d nodes to act on", len(text), len(named), len(acted))
		})
	}
	t.Run("300 rows", func(t *testing.T) {
		x.Run(context.Background(), wire.Action{Action: "n", Epoch: 1, DeadlineMs: 60_000, Act: wire.Act{Verb: "navigate", URL: site.URL + "/table"}})
		text := snapshot(t)
		// As the tools show it: each reference with its document's number.
		if size := len(strings.ReplaceAll(text, "[ref=", "[ref=d12")); size > 40_000 {
			t.Errorf("%d bytes", size)
		}
		if want := `- row: link "Order 17" [ref=`; !strings.Contains(text, want) {
			t.Errorf("no line with %s in\n%s", want, text[:2000])
		}
	})
	t.Run("what is drawn, and how", func(t *testing.T) {
		x.Run(context.Background(), wire.Action{Action: "n", Epoch: 1, DeadlineMs: 60_000, Act: wire.Act{Verb: "navigate", URL: site.URL + "/drawn"}})
		if text := snapshot(t); text != drawn {
			t.Errorf("got:\n%s\nwant:\n%s", text, drawn)
		}
	})
	t.Run("what changes meanwhile", func(t *testing.T) {
		for _, root := range []string{"document.body", "host.shadowRoot"} {
			x.Run(context.Background(), wire.Action{Action: "n", Epoch: 1, DeadlineMs: 60_000, Act: wire.Act{Verb: "navigate", URL: site.URL + "/widgets"}})
			for ms, want := range map[int64]bool{0: false, 400: true} {
				x.Run(context.Background(), wire.Action{Action: "e", Epoch: 1, DeadlineMs: 60_000, Class: core.Write, Act: wire.Act{Verb: "evaluate",
					Expression: fmt.Sprintf(`void setTimeout(() => %s.append("Came %d ms on"), 100)`, root, ms)}})
				text := snapshotOf(t, wire.Act{Verb: "snapshot", SettleMs: ms})
				if got := strings.Contains(text, fmt.Sprintf("Came %d ms on", ms)); got != want {
					t.Errorf("%s: settle_ms %d: told of what came after 100 ms: %v", root, ms, got)
				}
				time.Sleep(200 * time.Millisecond) // for what came too late
			}
		}
	})
	t.Run("no reference by words", func(t *testing.T) {
		x.Run(context.Background(), wire.Action{Action: "n", Epoch: 1, DeadlineMs: 60_000, Act: wire.Act{Verb: "navigate", URL: site.URL + "/words"}})
		if text := snapshot(t); strings.Count(text, "[ref=") != 2 {
			t.Errorf("what the page says looks like a reference:\n%s", text)
		}
	})
}

var refIn = regexp.MustCompile(`\[ref=(e\d+)\]`)

// named are the nodes that the references of a snapshot stand for.
func (b *browser) named(t *testing.T, x *Executor, text string) map[int64]bool {
	t.Helper()
	at, _ := b.document()
	world, ok := x.worlds.get(worldKey{at.Tab, at.Document})
	if !ok {
		t.Fatal("the document has no world of ours")
	}
	nodes := map[int64]bool{}
	for _, m := range refIn.FindAllStringSubmatch(text, -1) {
		var got struct{ Result struct{ ObjectID string } }
		b.must(b.session, "Runtime.evaluate", map[string]any{"contextId": world, "awaitPromise": true,
			"expression": fmt.Sprintf(`__sessiondock.find({target: {ref: %q}, need: {}, ms: 0}).then((r) => r.ok ? __sessiondock.element(r.n) : String(r.message))`, m[1])}, &got)
		if got.Result.ObjectID == "" {
			continue // not to be seen now: it is named all the same, and looked for when it is used
		}
		var node struct{ Node struct{ BackendNodeID int64 } }
		b.must(b.session, "DOM.describeNode", map[string]any{"objectId": got.Result.ObjectID}, &node)
		nodes[node.Node.BackendNodeID] = true
	}
	return nodes
}

// actable are the nodes of the accessibility tree that a person could act on, of the
// top document and the frames in it.
func (b *browser) actable(t *testing.T) map[int64]string {
	t.Helper()
	roles := map[string]bool{}
	for _, r := range strings.Fields(`button checkbox combobox ComboBoxSelect PopUpButton link listbox menuitem menuitemcheckbox menuitemradio
		radio searchbox slider spinbutton switch tab textbox treeitem DisclosureTriangle ToggleButton Date DateTime ColorWell`) {
		roles[r] = true
	}
	found := map[int64]string{}
	var frames struct {
		FrameTree struct {
			Frame       struct{ ID string }
			ChildFrames []struct {
				Frame struct{ ID string }
			}
		}
	}
	b.must(b.session, "Page.getFrameTree", nil, &frames)
	ids := []string{frames.FrameTree.Frame.ID}
	for _, f := range frames.FrameTree.ChildFrames {
		ids = append(ids, f.Frame.ID)
	}
	for _, id := range ids {
		var tree struct {
			Nodes []struct {
				Ignored          bool
				BackendDOMNodeID int64
				Role, Name       struct{ Value any }
				Properties       []struct {
					Name  string
					Value struct{ Value any }
				}
			}
		}
		b.must(b.session, "Accessibility.getFullAXTree", map[string]any{"frameId": id}, &tree)
		for _, n := range tree.Nodes {
			role, _ := n.Role.Value.(string)
			// An option of a list of ours; those of a select are chosen through it.
			acts := roles[role]
			for _, p := range n.Properties {
				acts = acts || p.Name == "focusable" && p.Value.Value == true && role != "RootWebArea" && role != "MenuListPopup" && role != "option"
			}
			if acts && !n.Ignored && !b.reachedOtherwise(n.BackendDOMNodeID) {
				found[n.BackendDOMNodeID] = fmt.Sprintf("%s %q", role, n.Name.Value)
			}
		}
	}
	return found
}

// reachedOtherwise says whether a node is one that the browser itself has put into a
// field, such as a date's year: it is set through the field; or an area of a picture,
// which has no box of its own to be looked up by.
func (b *browser) reachedOtherwise(node int64) bool {
	b.t.Helper()
	var object struct{ Object struct{ ObjectID string } }
	b.must(b.session, "DOM.resolveNode", map[string]any{"backendNodeId": node}, &object)
	var got struct{ Result struct{ Value bool } }
	b.must(b.session, "Runtime.callFunctionOn", map[string]any{"objectId": object.Object.ObjectID, "returnByValue": true,
		"functionDeclaration": `function () { return this.nodeName === 'AREA' || /^(INPUT|SELECT|TEXTAREA|VIDEO|AUDIO)$/.test(this.getRootNode().host?.nodeName) }`}, &got)
	return got.Result.Value
}

func joined(d Done) []byte {
	var out []byte
	for _, part := range d.Result {
		out = append(out, part...)
	}
	return out
}
