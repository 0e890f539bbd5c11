package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// toolRounds is how often each tool is used; the others' take up to seconds.
	toolRounds = 15
	toolWarmUp = 3
	// rivalsDir holds other servers of browser tools, as they are published.
	rivalsDir = "rivals"
)

// errNoRivals says that there is nothing to measure against.
var errNoRivals = errors.New("NOT RUN: the other servers are not installed: npm ci --prefix e2e/bench/rivals")

// toolServer is a running server of browser tools, with the names that it gives them.
type toolServer struct {
	name    string
	session *sdk.ClientSession

	navigate, snapshot, click, evaluate string
	// button finds the reference of a row's button in a snapshot.
	button *regexp.Regexp
	// target is what a click is told by.
	target func(ref string) map[string]any
	// address is what a navigation is told by.
	address func(url string) map[string]any
}

// use calls a tool and returns what it says and how long that took.
func (t *toolServer) use(ctx context.Context, tool string, args map[string]any) (string, time.Duration, error) {
	start := time.Now()
	r, err := t.session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	took := time.Since(start)
	if err != nil {
		return "", 0, fmt.Errorf("%s: %s: %w", t.name, tool, err)
	}
	var text strings.Builder
	for _, c := range r.Content {
		if c, ok := c.(*sdk.TextContent); ok {
			text.WriteString(c.Text)
		}
	}
	if r.IsError {
		return "", 0, fmt.Errorf("%s: %s says: %.500s", t.name, tool, text.String())
	}
	return text.String(), took, nil
}

func (t *toolServer) press(ctx context.Context, row int, page string) (time.Duration, error) {
	m := regexp.MustCompile(fmt.Sprintf(t.button.String(), row)).FindStringSubmatch(page)
	if m == nil {
		return 0, fmt.Errorf("%s: no button of row %d in a snapshot of %d bytes: %.1000s", t.name, row, len(page), page)
	}
	_, took, err := t.use(ctx, t.click, t.target(m[1]))
	return took, err
}

// startTools starts a server over its standard input and output.
func startTools(ctx context.Context, t toolServer, cmd *exec.Cmd) (*toolServer, error) {
	cmd.Stderr = nil
	var err error
	t.session, err = sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	return &t, nil
}

// rivals starts the other servers, each with a browser of its own, of the same kind.
func (b *bench) rivals(ctx context.Context) (all []*toolServer, err error) {
	dir := filepath.Join(b.home.Bin(), rivalsDir, "node_modules", ".bin")
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	for _, r := range []struct {
		toolServer
		args []string
	}{
		{toolServer{
			name: "@playwright/mcp", navigate: "browser_navigate", snapshot: "browser_snapshot", click: "browser_click", evaluate: "browser_evaluate",
			button:  regexp.MustCompile(`button "Save %d" \[ref=(\w+)\]`),
			target:  func(ref string) map[string]any { return map[string]any{"element": "Save", "target": ref} },
			address: func(url string) map[string]any { return map[string]any{"url": url} },
		}, []string{"playwright-mcp", "--headless", "--isolated", "--executable-path", chromium}},
		{toolServer{
			name: "chrome-devtools-mcp", navigate: "navigate_page", snapshot: "take_snapshot", click: "click", evaluate: "evaluate_script",
			button:  regexp.MustCompile(`uid=(\w+) button "Save %d"`),
			target:  func(ref string) map[string]any { return map[string]any{"uid": ref} },
			address: func(url string) map[string]any { return map[string]any{"type": "url", "url": url} },
		}, []string{"chrome-devtools-mcp", "--headless", "--isolated", "--executablePath", chromium, "--no-usage-statistics", "--no-performance-crux", "--no-page-id-routing"}},
	} {
		cmd := exec.Command(filepath.Join(dir, r.args[0]), r.args[1:]...)
		t, err := startTools(ctx, r.toolServer, cmd)
		if err != nil {
			return all, err
		}
		all = append(all, t)
	}
	return all, nil
}

// ownTools starts `sessiondock mcp` as its own configuration says.
func (b *bench) ownTools(ctx context.Context) (*toolServer, error) {
	program := filepath.Join(b.home.Bin(), "sessiondock")
	printed, err := exec.CommandContext(ctx, program, "mcp", "config", "claude", "--binding", slot, "--to", "tools").Output()
	if err != nil {
		return nil, err
	}
	var file struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(printed, &file); err != nil {
		return nil, err
	}
	server := file.Servers["sessiondock"]
	return startTools(ctx, toolServer{
		name: "sessiondock mcp", navigate: "browser_navigate", snapshot: "browser_snapshot", click: "browser_click", evaluate: "browser_evaluate",
		button:  regexp.MustCompile(`button "Save %d" \[ref=(\w+)\]`),
		target:  func(ref string) map[string]any { return map[string]any{"element": "Save", "target": ref} },
		address: func(url string) map[string]any { return map[string]any{"url": url} },
	}, exec.Command(server.Command, server.Args...))
}

// measureTools has each server navigate, look, click and evaluate in turns, on a page of
// 300 rows with a link, a field and a button each.
func measureTools(ctx context.Context, b *bench) (figures []Figure, err error) {
	if _, err := os.Stat(filepath.Join(b.home.Bin(), rivalsDir, "node_modules")); err != nil {
		return nil, errNoRivals
	}
	p, err := b.product(ctx, "", "table")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	if err := p.agent.Release(ctx); err != nil {
		return nil, err
	}
	p.agent = nil
	ours, err := b.ownTools(ctx)
	if err != nil {
		return nil, err
	}
	defer ours.session.Close()
	others, err := b.rivals(ctx)
	defer func() {
		for _, t := range others {
			t.session.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	servers := append([]*toolServer{ours}, others...)
	took := make([]map[string][]time.Duration, len(servers))
	size := make([]int, len(servers))
	for i := range took {
		took[i] = map[string][]time.Duration{}
	}
	for round := range toolWarmUp + toolRounds {
		for i, t := range servers {
			note := func(what string, d time.Duration) {
				if round >= toolWarmUp {
					took[i][what] = append(took[i][what], d)
				}
			}
			_, d, err := t.use(ctx, t.navigate, t.address(b.page("table")))
			if err != nil {
				return nil, err
			}
			note("navigate", d)
			page, d, err := t.use(ctx, t.snapshot, map[string]any{})
			if err != nil {
				return nil, err
			}
			note("snapshot", d)
			size[i] = len(page)
			if d, err = t.press(ctx, round, page); err != nil {
				return nil, err
			}
			note("click", d)
			text, d, err := t.use(ctx, t.evaluate, map[string]any{"function": "() => document.getElementById('state').textContent"})
			if err != nil {
				return nil, err
			}
			note("evaluate", d)
			if !strings.Contains(text, "1") {
				return nil, fmt.Errorf("%s: the click did not land: %.300s", t.name, text)
			}
			if i == 0 {
				// What the page itself takes, as its browser counts it, is in every navigation.
				text, _, err := t.use(ctx, t.evaluate, map[string]any{"function": "() => Math.round(performance.getEntriesByType('navigation')[0].duration)"})
				if err != nil {
					return nil, err
				}
				ms, err := strconv.Atoi(strings.TrimSpace(text))
				if err != nil {
					return nil, fmt.Errorf("the page's load: %w", err)
				}
				note("load", time.Duration(ms)*time.Millisecond)
			}
		}
	}
	for _, what := range []string{"click", "evaluate", "navigate", "snapshot"} {
		best := 1
		for i := 2; i < len(servers); i++ {
			if percentile(took[i][what], 50) < percentile(took[best][what], 50) {
				best = i
			}
		}
		figures = append(figures, figure("mcp_"+what+"_vs_best", servers[best].name+", the faster of two", 50, took[0][what], took[best][what]))
	}
	figures = append(figures, figure("mcp_navigate_vs_load", "the same page's own load, by its browser", 50, took[0]["navigate"], took[0]["load"]))
	least := min(size[1], size[2])
	f := Figure{Name: "mcp_snapshot_kb", Unit: "kB", Baseline: "the smaller one of the other two", Value: round(float64(size[0]) / 1000), BaselineValue: round(float64(least) / 1000), N: toolRounds}
	f.Ratio = ratio(f.Value, f.BaselineValue)
	return append(figures, f), nil
}
