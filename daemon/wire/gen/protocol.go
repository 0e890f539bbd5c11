package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// history has one row for every version of the protocol, the current one last.
var history = []struct {
	version int
	what    string
}{
	{1, "the first"},
}

var parties = map[byte]string{'D': "daemon", 'H': "host", 'X': "extension"}

func renderProtocol(m *model) ([]byte, error) {
	if last := history[len(history)-1].version; last != wire.Version {
		return nil, fmt.Errorf("wire.Version is %d and the history ends with %d: add a row", wire.Version, last)
	}
	var w bytes.Buffer
	fmt.Fprintf(&w, "<!-- %s -->\n", generated)
	w.WriteString(`
# The protocol

What the daemon, the host and the extension say to each other, and the JSON of the daemon's HTTP API. The Go types of ` + "`daemon/wire`" + ` are the definition; this page, the extension's validators and its types are written from them.

- A message is one JSON object; its member ` + "`t`" + ` names its type. Unknown members are ignored and unknown types dropped, so that a newer peer may say more. A request to the HTTP API is the opposite: an unknown member is refused, because a misspelt condition must not be ignored.
- On ` + "`host.sock`" + ` a frame is a length of 4 bytes, little-endian, and that many bytes of JSON in UTF-8. On Native Messaging the length is in the machine's own order. A frame of length 0, a longer one than the limit, or one that is not UTF-8 ends the connection.
- What daemon and extension say passes through the host unchanged. The host looks at ` + "`grant` and `fence`" + `, which move its own gate, and answers ` + "`action`" + ` itself. A message too large for one Native Messaging frame travels as ` + "`chunk`" + `s.
- Everything between daemon and extension carries the nonce of the current link; a message with another nonce belongs to a link that has ended, and is dropped.
- Where ` + "`null`" + ` is allowed it means the same as an empty value. Integers are at most 2^53-1. A string has at most ` + strconv.Itoa(maxString) + ` UTF-16 code units unless its row says otherwise; an array at most ` + strconv.Itoa(maxArray) + ` elements.

## Verbs

*Class*: a write can have an effect on the website, a read cannot. *Document*: the action runs only in the document last reported to this agent, or the one that ` + "`expect`" + ` names.

| verb | class | target | must have | document | what it does |
|---|---|---|---|---|---|
`)
	for _, v := range wire.Verbs {
		class, target, doc := "read", "none", "any"
		if v.Write {
			class = "write"
		}
		switch v.Target {
		case "need":
			target = "required"
		case "may":
			target = "optional"
		}
		if v.Doc {
			doc = "the expected"
		}
		row(&w, code(v.Verb), class, target, code(strings.Fields(v.Needs)...), doc, cell(v.Help))
	}

	w.WriteString("\n## Messages\n")
	for _, link := range links(m) {
		fmt.Fprintf(&w, "\n### From %s to %s\n", parties[link[0]], parties[link[1]])
		for _, msg := range m.Messages {
			for i := range msg.From {
				if msg.From[i] == link[0] && msg.To[i] == link[1] {
					fmt.Fprintf(&w, "\n#### `%s`\n", msg.T)
					if i == 0 {
						describe(&w, msg.object)
					} else {
						fmt.Fprintf(&w, "\nAs from %s to %s.\n", parties[msg.From[0]], parties[msg.To[0]])
					}
				}
			}
		}
	}
	w.WriteString("\n### Objects within messages\n")
	for _, o := range m.Objects {
		fmt.Fprintf(&w, "\n#### %s\n", o.Name)
		describe(&w, o)
	}

	w.WriteString(`
## The HTTP API

HTTP over two unix sockets: ` + "`api/api.sock`" + ` for agents, ` + "`control.sock`" + ` for people, both under ` + "`$XDG_RUNTIME_DIR/sessiondock/`" + `. Bodies and answers are JSON. The secret, where a row names one, comes as ` + "`Authorization: Bearer SECRET`" + `. The Host is ` + "`localhost`" + `; a request with an Origin is refused. For example:

    curl --unix-socket "$XDG_RUNTIME_DIR/sessiondock/api/api.sock" \
        -H "Authorization: Bearer $SESSIONDOCK_CAPABILITY" http://localhost/v1/leases/$SESSIONDOCK_LEASE

A row for *api* is served on both sockets, one for *control* only on ` + "`control.sock`" + `.

| request | door | secret | body | answer | what it does |
|---|---|---|---|---|---|
`)
	for _, r := range wire.Routes {
		row(&w, code(r.Method+" "+r.Path), r.Door, r.Secret, r.Body, r.Answer, cell(r.Help))
	}

	w.WriteString("\n## Bodies of the HTTP API\n\nDurations are milliseconds.\n")
	for _, o := range m.API {
		fmt.Fprintf(&w, "\n#### %s\n", o.Name)
		describe(&w, o)
	}

	w.WriteString(devtools)
	for _, domain := range domains() {
		row(&w, domain.name, code(domain.pass...), code(domain.refused...))
	}
	w.WriteString(settings)
	for _, s := range core.Settings {
		var names []string
		for _, method := range slices.Sorted(maps.Keys(wire.Methods)) {
			if wire.Methods[method].Needs == s.Name {
				names = append(names, method)
			}
		}
		row(&w, code(s.Name), s.Help, code(names...))
	}

	w.WriteString(`
## Entries of the journal

Each has the number (` + "`seq`" + `) after which a reader goes on, the time, the principal (` + "`human:SURFACE`, `agent:NAME`, `extension`, `host`, `supervisor` or `system`" + `, which is the daemon itself) and a reason. One that names a slot has the epoch that the slot was at. What is typed into pages is in none. A stream sends each as one server-sent event with its number as ` + "`id`" + `, and in silence a comment with the number up to which it has looked.

An entry that has been trimmed (` + "`--journal-age`, `--journal-size`" + ` of the daemon) is not given any more: in its place a reader gets one row of kind ` + "`" + core.NotKept + "`" + ` with the number of the last such entry. A reader that asks for entries after a number which the journal has not reached is refused with ` + "`conflict`" + `: its number is of another database.

| kind | names | meaning |
|---|---|---|
`)
	for _, k := range core.Kinds {
		row(&w, code(k.Kind), code(strings.Fields(k.Of)...), cell(k.Help))
	}

	w.WriteString("\n## Codes\n\nEvery refusal is `{\"error\": {\"code\", \"message\", \"hint\", \"detail\"}}`. Clients decide on the code alone.\n\n| code | HTTP | exit | send again | meaning |\n|---|---|---|---|---|\n")
	for _, c := range core.Codes {
		row(&w, code(string(c.Code)), strconv.Itoa(c.HTTP), strconv.Itoa(c.Exit), string(c.Retry), cell(c.Meaning))
	}

	w.WriteString("\n## Limits\n\n| limit | value | why |\n|---|---|---|\n")
	for _, l := range m.Limits {
		row(&w, l.Name, limitValue(l), cell(l.Doc))
	}

	w.WriteString("\n## Versions\n\nThe version changes when a peer of the former one could not be understood. Parts of different versions refuse each other with `version_skew`.\n\n| version | what changed |\n|---|---|\n")
	for _, h := range history {
		row(&w, strconv.Itoa(h.version), cell(h.what))
	}
	return w.Bytes(), nil
}

const devtools = `
## The DevTools endpoint

A lease's ` + "`cdp_url`" + ` is ` + "`ws://127.0.0.1:PORT/devtools/browser/SECRET`" + `, good for one lease and one epoch. It stands in the answers to acquire, resume, renew and GET of a lease that has control, and for what ` + "`sessiondock run`" + ` starts in ` + "`SESSIONDOCK_CDP_URL`" + `. Playwright, Puppeteer, chromedp and others take it as it is. For clients that ask by HTTP there are ` + "`http://127.0.0.1:PORT/SECRET/json/version`" + ` (with or without a slash at its end) and ` + "`json/list`" + `.

- **Who may come.** A request with an Origin, or with a Host other than the bound address, is answered with 403, as is one without a valid secret. A former epoch's secret gets 403 with the reason as text. One client of a lease is connected at a time (409), unless the next one adds ` + "`?beside`" + `; eight at most. Each has sessions of its own, and is told of what was there before it came.
- **What there is.** A browser with one context and the lease's tabs: those that are lent (they may be used, not closed) and those made under the lease. Target identifiers are the browser's, session identifiers the endpoint's. Methods of the browser itself are answered by the endpoint: ` + "`Target.*`" + `, ` + "`Browser.getVersion`" + `, ` + "`Browser.setDownloadBehavior`" + ` (which changes no directory; with eventsEnabled downloads of the lease's pages are told) and ` + "`Browser.close`" + ` (which closes this socket). ` + "`Target.activateTarget` and `Page.bringToFront`" + ` leave in front what is in front.
- **Commands** for pages, frames and workers are actions of the verb ` + "`cdp`" + `: admitted, recorded, and passed by the three gates, in the order in which they were sent and beside each other. They count against the lease's budget. Every error has the protocol's form; a refusal's message begins with its code, and says what would help. Nothing is sent twice, by whatever reconnection.
- **Input** is for the document that this session was last told of. Where another one has come meanwhile it is refused with ` + "`document_changed`" + `, and the next is for that one.
- **Events** reach the clients of their epoch only. Of a page outside the binding's origins it is told that it came and went. No event carries cookies, whatever the binding allows.
- **The end.** When the epoch ends, the socket is closed at once, and commands that are under way are not answered: what became of them is in the ledger. When a client goes, what it had switched on is switched off, and its tabs stay.

| closed with | because |
|---|---|
| 4001 | the epoch has ended: a takeover, a release, an expiry. The reason says which. |
| 4002 | the link to the browser was lost, and with it the epoch: resume the lease, its new address is the one. |
| 4003 | the client does not read, or events came faster than they could be passed on, or a page sent so many that its debugging was ended: have it say less, or listen to less |
| 4004 | a message of more than 16 MiB, or more than 1024 commands (64 MiB) without an answer |
| 1001 | the daemon is ending |

A result of more than ` + "`MaxMessage`" + ` is answered with ` + "`limit`" + `. A command is waited for ten minutes.

Methods for pages, frames and workers. What is not here is answered with -32601.

| domain | passed on | refused, with the reason |
|---|---|---|
`

const settings = `
A binding can allow more (` + "`allow`; `bind --allow`" + `). Without the setting these are refused with its name. All of them are held to the binding's origins, where it lists any: a cookie by its domain, which must be the host of one of them (ports and schemes are all the same to cookies), what is stored by its origin, a request by its address. ` + "`Storage.clearCookies` and `Network.clearBrowserCookies`" + ` delete no more than those cookies. A request to another origin is not held back, and not told as held back. After a fence no request is held back: those that were are failed, unsent.

| setting | what it opens | methods |
|---|---|---|
`

type domain struct {
	name          string
	pass, refused []string
}

// domains is the table of methods by their domain.
func domains() []domain {
	var out []domain
	for _, method := range slices.Sorted(maps.Keys(wire.Methods)) {
		name, short, _ := strings.Cut(method, ".")
		if len(out) == 0 || out[len(out)-1].name != name {
			out = append(out, domain{name: name})
		}
		d := &out[len(out)-1]
		switch row := wire.Methods[method]; {
		case row.Never != "":
			d.refused = append(d.refused, short)
		case row.Needs == "":
			d.pass = append(d.pass, short)
		}
	}
	return out
}

// links are the pairs of parties that talk, in the order in which they begin to.
func links(m *model) []string {
	var out []string
	seen := map[string]bool{}
	for _, msg := range m.Messages {
		for i := range msg.From {
			l := string([]byte{msg.From[i], msg.To[i]})
			if !seen[l] {
				seen[l] = true
				out = append(out, l)
			}
		}
	}
	return out
}

func describe(w *bytes.Buffer, o *object) {
	if o.Doc != "" {
		fmt.Fprintf(w, "\n%s\n", cell(o.Doc))
	}
	w.WriteString("\n| field | type | |\n|---|---|---|\n")
	for _, f := range o.Fields {
		typ := shapeMD(f.Shape)
		switch {
		case f.Optional:
			typ += ", optional"
		case f.Shape.Null:
			typ += " or `null`"
		}
		row(w, code(f.Name), typ, cell(f.Doc))
	}
}

func shapeMD(s *shape) string {
	switch {
	case s.Enum != nil:
		return code(s.Enum...)
	case s.Kind == kindArray:
		return "array of " + shapeMD(s.Elem)
	case s.Kind == kindMap:
		return "object of " + shapeMD(s.Elem)
	case s.Kind == kindObject:
		return s.Struct
	case s.Kind == kindAny:
		return "any JSON"
	}
	name := map[kind]string{kindString: "string", kindBool: "boolean", kindInt: "integer", kindUint: "integer ≥ 0", kindNumber: "number"}[s.Kind]
	if s.Alias != "" {
		name += " (" + s.Alias + ")"
	}
	if s.Max != 0 {
		name += ", up to " + bytesText(s.Max)
	}
	return name
}

func limitValue(l limit) string {
	switch {
	case l.Time:
		return (time.Duration(l.Value) * time.Millisecond).String()
	case l.Value >= 1<<10 && l.Value%(1<<10) == 0:
		return bytesText(l.Value)
	}
	return strconv.FormatInt(l.Value, 10)
}

func bytesText(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func row(w *bytes.Buffer, cells ...string) {
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}

func code(words ...string) string {
	quoted := make([]string, len(words)) // words is the caller's own slice
	for i, s := range words {
		quoted[i] = "`" + s + "`"
	}
	return strings.Join(quoted, " ")
}

// cell keeps a sentence from ending its table cell or being read as markup.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(s)
}
