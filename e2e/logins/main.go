package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"sessiondock.dev/sessiondock/e2e/manager"
	"sessiondock.dev/sessiondock/e2e/programs"
)

// pageFile is the finished page, in the run's home.
const pageFile = "LOGINS.md"

func main() {
	manager.Stage()
	only := flag.String("only", "", "play only the cells whose name (such as early-headless) this expression matches")
	write := flag.String("write", "", "write the table into this file; not with -only")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "usage: logins [-only EXPRESSION | -write FILE]\n\nFinds out what becomes of a sign-in, in a real Chromium. Ends with 1 if status takes a\nslot for signed in while the site does not, or a sign-in is lost that should stay.\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	chosen, err := choose(*only)
	if err == nil && (*only != "" && *write != "" || flag.NArg() > 0) {
		err = errors.New("a part of the table is not written (-only with -write), and there are no arguments")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		fmt.Fprintln(os.Stderr, "hint: logins -help")
		os.Exit(2)
	}
	home, in := manager.Inside()
	if in {
		os.Exit(play1(home, chosen))
	}
	why := manager.Missing()
	if _, err := exec.LookPath("chromium"); why == "" && err != nil {
		why = "chromium is missing: make deps"
	}
	if why != "" {
		fmt.Fprintln(os.Stderr, "NOT RUN:", why)
		os.Exit(1)
	}
	code, err := manager.Rerun(manager.Run{Args: os.Args[1:], Prepare: prepare, Finish: func(home manager.Home) error {
		if *write == "" {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(home.Dir, "home", pageFile))
		if err != nil {
			return err
		}
		return os.WriteFile(*write, text, 0o644)
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = 1
	}
	os.Exit(code)
}

// prepare builds the programs, and a daemon whose extension is another build.
func prepare(bin string) error {
	if err := programs.Build(bin); err != nil {
		return err
	}
	return programs.BuildNext(filepath.Join(bin, nextDaemon))
}

// choose returns the cells that the expression matches; an empty one matches all.
func choose(only string) ([]cell, error) {
	expression, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	var chosen []cell
	for _, display := range []string{"headless", "window"} {
		for _, w := range ways {
			if c := (cell{w, display}); expression.MatchString(c.name()) {
				chosen = append(chosen, c)
			}
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no cell is called so: %s", only)
	}
	return chosen, nil
}

// play1 plays the cells, tells what they came to and returns the exit code.
func play1(home manager.Home, chosen []cell) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	outcomes, err := playAll(ctx, home, chosen, func(o outcome, err error) {
		switch {
		case err != nil:
			fmt.Fprintf(os.Stderr, "%-18s FAILED: %v\n", o.name(), err)
		case o.notRun != "":
			fmt.Fprintf(os.Stderr, "%-18s NOT RUN: %s\n", o.name(), o.notRun)
		default:
			fmt.Fprintf(os.Stderr, "%-18s site: signed in %v %+v, tab back %v; status: %v\n%19s%s\n", o.name(), o.site.signedIn(), o.site, o.tab, o.said, "", o.line)
			if w := o.wrong(); w != "" {
				fmt.Fprintf(os.Stderr, "%-18s WRONG: %s\n", o.name(), w)
			}
		}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	page := render(outcomes)
	fmt.Print(table(outcomes))
	if err := os.WriteFile(pageFile, []byte(page), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	for _, o := range outcomes {
		if o.wrong() != "" {
			return 1
		}
	}
	return 0
}

// playAll plays the cells one after the other, those of each display with an installation
// of their own.
func playAll(ctx context.Context, home manager.Home, chosen []cell, tell func(outcome, error)) ([]outcome, error) {
	at, err := openSite()
	if err != nil {
		return nil, err
	}
	defer at.close()
	var outcomes []outcome
	for _, display := range []string{"headless", "window"} {
		var these []cell
		for _, c := range chosen {
			if c.display == display {
				these = append(these, c)
			}
		}
		if len(these) == 0 {
			continue
		}
		notRun := ""
		if display == "window" {
			if notRun, err = openDisplay(); err != nil {
				return outcomes, err
			}
		}
		if notRun != "" {
			for _, c := range these {
				o := outcome{cell: c, notRun: notRun}
				tell(o, nil)
				outcomes = append(outcomes, o)
			}
			continue
		}
		product, err := manager.Install(home)
		if err != nil {
			return outcomes, err
		}
		failed := 0
		for _, c := range these {
			p := play{cell: c, home: home, product: product, site: at}
			o, err := p.run(ctx)
			tell(o, err)
			if err != nil {
				failed++
				continue
			}
			outcomes = append(outcomes, o)
		}
		if failed > 0 {
			err = fmt.Errorf("%d cells have failed; the daemon's log ends:\n%s", failed, tail(product.Log()))
		}
		if err = errors.Join(err, product.Remove(ctx)); err != nil {
			return outcomes, err
		}
	}
	return outcomes, nil
}

func tail(text string) string { return text[max(0, len(text)-4000):] }

// table is the matrix.
func table(outcomes []outcome) string {
	var b strings.Builder
	b.WriteString("| display | what happens | signed in | cookie | session cookie | local storage | IndexedDB | tab back | what `status` says |\n|---|---|---|---|---|---|---|---|---|\n")
	yes := map[bool]string{true: "yes", false: "no"}
	for _, o := range outcomes {
		if o.notRun != "" {
			fmt.Fprintf(&b, "| %s | %s | NOT RUN | | | | | | %s |\n", o.display, o.way.name, o.notRun)
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", o.display, o.way.name, yes[o.site.signedIn()],
			yes[o.site.Cookie], yes[o.site.Session], yes[o.site.Local], yes[o.site.Indexed], yes[o.tab], o.said)
	}
	return b.String()
}
