package cdp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func TestFilters(t *testing.T) {
	pages := []filter{{Type: "page", Exclude: true}, {}}
	nothing := []filter{{Exclude: true}}
	for _, tt := range []struct {
		rows []filter
		kind string
		want bool
	}{
		{nil, "page", true}, {nil, "tab", false}, {nil, "browser", false}, {nil, "worker", true},
		{pages, "page", false}, {pages, "tab", true}, {nothing, "page", false}, {[]filter{}, "page", false},
		{[]filter{{Type: "page"}}, "page", true}, {[]filter{{Type: "page"}}, "tab", false},
	} {
		if got := passes(tt.rows, tt.kind); got != tt.want {
			t.Errorf("%+v of %s: %v", tt.rows, tt.kind, got)
		}
	}
}

func TestPaths(t *testing.T) {
	for _, tt := range []struct{ path, secret, page string }{
		{"/devtools/browser/S", "S", "browser"}, {"/devtools/browser/S/", "S", "browser"}, {"/S/json/version", "S", "json/version"},
		{"/S/json/version/", "S", "json/version"}, {"/S/json", "S", "json"}, {"/S/devtools/browser/S", "S", "browser"},
		{"/S/devtools/browser/T", "S", "devtools/browser/T"}, {"/json/version", "json", "version"},
	} {
		if secret, page, _ := split(tt.path); secret != tt.secret || page != tt.page {
			t.Errorf("%s: %q %q", tt.path, secret, page)
		}
	}
}

// A secret is of one lease and one epoch, and of one daemon.
func TestSecrets(t *testing.T) {
	s, other := &Server{}, &Server{}
	s.key[0], other.key[0] = 1, 2
	good := s.secret("01JZ8M3T6V4Q0W9YB2C7D5E1FG", 7)
	if lease, epoch, ok := s.proof(good); !ok || lease != "01JZ8M3T6V4Q0W9YB2C7D5E1FG" || epoch != 7 {
		t.Fatalf("%s: %s %d %v", good, lease, epoch, ok)
	}
	if len(good) < 64+26 {
		t.Errorf("%s is too short", good)
	}
	for _, bad := range []string{
		"", "-", "--", good[:len(good)-1], good + "0", strings.ToUpper(good), strings.Replace(good, "-7-", "-8-", 1), strings.Replace(good, "-7-", "-07-", 1),
		"x" + good, other.secret("01JZ8M3T6V4Q0W9YB2C7D5E1FG", 7), strings.Repeat("9", 100),
	} {
		if _, _, ok := s.proof(bad); ok {
			t.Errorf("%q is taken", bad)
		}
	}
	l := &core.Lease{State: core.LeaseEnded}
	if s.URL(l) != "" {
		t.Error("a lease that has ended has an address")
	}
}

// Whatever a client may set in a page is taken back with it, by a method that it may use.
func TestWhatIsSetIsTakenBack(t *testing.T) {
	page, err := os.ReadFile("../../docs/CLIENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range stays {
		if !strings.Contains(string(page), "`"+method+"`") {
			t.Errorf("docs/CLIENTS.md does not say that %s stays", method)
		}
	}
	for method, row := range wire.Methods {
		domain, name, _ := strings.Cut(method, ".")
		sets := slices.ContainsFunc([]string{"set", "emulateNetwork", "override", "force"}, func(p string) bool { return strings.HasPrefix(name, p) })
		// What edits the document goes with it. Target.setAutoAttach is the endpoint's own.
		edits := domain == "DOM" || domain == "CSS" && strings.HasPrefix(name, "set") || method == "Page.setDocumentContent"
		if !sets || edits || domain == "Target" || row.Needs != "" || row.Never != "" {
			continue
		}
		if _, ok := undo[method]; !ok && !slices.Contains(stays, method) {
			t.Errorf("%s stays set", method)
		}
	}
	for method, back := range undo {
		row, known := wire.Methods[back.method]
		if _, is := wire.Methods[method]; !is || !known || row.Needs != "" || row.Never != "" || !json.Valid([]byte(back.params)) {
			t.Errorf("%s is taken back by %+v", method, back)
		}
	}
}

// What another session of the same page has set, too, is its own: it stays with that one.
func TestWhatAnotherHasSetStays(t *testing.T) {
	n := &node{}
	add := func(n *node, keys ...string) *session {
		s := &session{node: n, undo: map[string]undone{}}
		for _, key := range keys {
			s.undo[key] = undone{method: key}
		}
		n.sessions = append(n.sessions, s)
		return s
	}
	first, second := add(n, "headers", "cache"), add(n, "headers", "binding a")
	add(&node{}, "cache", "binding a") // of another page
	for _, tt := range []struct {
		s    *session
		want string
	}{{first, "cache"}, {second, "binding a"}} {
		if got := tt.s.alone(); len(got) != 1 || got[0].method != tt.want {
			t.Errorf("taken back: %v, want %s", got, tt.want)
		}
	}
	n.sessions = []*session{second} // the first has gone
	if got := second.alone(); len(got) != 2 {
		t.Errorf("by the last one: %v", got)
	}
}

// A download is told to the sessions that have asked, its beginning and its end once each,
// also if a page and a frame of it are both told.
func TestDownloadsAreTold(t *testing.T) {
	d := &desk{loading: map[string]bool{}}
	asks, other := newClient(d), newClient(d)
	d.clients = []*client{asks, other}
	asks.root.downloads = true
	for _, e := range [][2]string{
		{"downloadProgress", `{"guid":"G","state":"inProgress"}`}, // it has not begun
		{"downloadWillBegin", `{"guid":"G"}`}, {"downloadWillBegin", `{"guid":"G"}`}, {"downloadProgress", `{"guid":"G","state":"inProgress"}`},
		{"downloadProgress", `{"guid":"G","state":"completed"}`}, {"downloadProgress", `{"guid":"G","state":"completed"}`}, {"loadEventFired", `{}`},
	} {
		d.download(e[0], json.RawMessage(e[1]))
	}
	var told []string
	for _, body := range asks.queue {
		told = append(told, string(body))
	}
	want := []string{
		`{"method":"Browser.downloadWillBegin","params":{"guid":"G"}}`, `{"method":"Browser.downloadProgress","params":{"guid":"G","state":"inProgress"}}`,
		`{"method":"Browser.downloadProgress","params":{"guid":"G","state":"completed"}}`,
	}
	if !slices.Equal(told, want) || len(other.queue) != 0 || len(d.loading) != 0 {
		t.Errorf("told %q, and %d to who did not ask; %d go on", told, len(other.queue), len(d.loading))
	}
}

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "hold" {
		os.Exit(hold(os.Args[2]))
	}
	os.Exit(m.Run())
}

// hold opens all the connections that it can get to an address, and keeps them until its
// standard input ends.
func hold(address string) int {
	for range maxConns + 10 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return 1
		}
		defer conn.Close()
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
	return 0
}

// Another user of the machine takes no place of this one's: behind as many connections as
// there may be, the first that is accepted is ours. Connections come in the order in which
// they were made.
func TestAnotherUserTakesNoPlace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT RUN: only root can start a program as another user")
	}
	s, err := Listen(nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l := s.places()
	defer l.who.close()
	defer l.Close()
	if l.who == nil {
		t.Skip("NOT RUN: this kernel does not say whose a connection is")
	}
	accepted := make(chan net.Conn, maxConns+1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	hold := func(uid uint32) {
		t.Helper()
		other := exec.CommandContext(t.Context(), "/proc/self/exe", "hold", s.l.Addr().String())
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: true}}
		other.Dir = "/"
		in, err := other.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := other.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			other.Wait()
		})
		if said, _ := bufio.NewReader(out).ReadString('\n'); said != "held\n" {
			t.Fatalf("the program of uid %d said %q", uid, said)
		}
	}
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", s.l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}

	hold(65534)
	mine := dial()
	if first := <-accepted; first.RemoteAddr().String() != mine.LocalAddr().String() {
		t.Fatal("a connection of another user was accepted")
	}
	// As many of this user's own fill the place: so the bound is there.
	hold(0)
	for range maxConns - 1 {
		<-accepted
	}
	closed := make(chan error, 1)
	beyond := dial()
	go func() {
		_, err := beyond.Read(make([]byte, 1))
		closed <- err
	}()
	select {
	case err := <-closed:
		if err == nil {
			t.Error("one beyond the bound was answered")
		}
	case <-accepted:
		t.Error("one beyond the bound was accepted")
	}
}

// A kernel that knows nothing of a socket that is there is not believed later on, when it says
// that a connection's other end is gone. One that is not there stands for that.
func TestWhoseNeedsAKernelThatAnswers(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr).AddrPort()
	w, err := openWhose(address)
	if err != nil {
		l.Close()
		t.Skip("NOT RUN: this kernel does not say whose a socket is: ", err)
	}
	w.close()
	l.Close()
	if w, err := openWhose(address); err == nil {
		w.close()
		t.Error("it is asked all the same")
	}
}

func FuzzProof(f *testing.F) {
	s := &Server{}
	s.key[0] = 1
	f.Add("01JZ8M3T6V4Q0W9YB2C7D5E1FG-7-00")
	f.Fuzz(func(t *testing.T, secret string) {
		if lease, epoch, ok := s.proof(secret); ok && s.secret(lease, epoch) != secret {
			t.Fatalf("%q", secret)
		}
	})
}
