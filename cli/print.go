package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// width is the longest line that a person's terminal is sure to show.
const width = 80

// Colours of a terminal. They repeat what the words say, never more.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

func (a *app) paint(colour, text string) string {
	if !a.colour || text == "" {
		return text
	}
	return colour + text + plain
}

// printJSON writes v as indented JSON.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// show prints v as JSON if asked to, else by human.
func (a *app) show(v any, human func() error) error {
	if a.json {
		return a.printJSON(v)
	}
	return human()
}

// say writes a message for a person; it is not data.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }

// table prints rows in columns. Of nothing it says so, on standard error.
func (a *app) table(head []string, rows [][]string, none string) error {
	if len(rows) == 0 {
		a.say("%s", none)
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, r := range rows {
		for i := range r {
			if r[i] = clean(r[i]); r[i] == "" {
				r[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// clean removes what could move a terminal's cursor: names, URLs and titles come
// from web pages.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}

// wrap breaks text into lines of at most width, the first after lead and the
// others after as many blanks.
func wrap(lead, text string) string {
	indent := strings.Repeat(" ", utf8.RuneCountInString(lead))
	var b strings.Builder
	b.WriteString(lead)
	col := utf8.RuneCountInString(lead)
	for i, word := range strings.Fields(clean(text)) {
		n := utf8.RuneCountInString(word)
		if i > 0 {
			if col+1+n > width {
				b.WriteString("\n" + indent)
				col = len(indent)
			} else {
				b.WriteByte(' ')
				col++
			}
		}
		b.WriteString(word)
		col += n
	}
	b.WriteByte('\n')
	return b.String()
}

// clip shortens text to n characters.
func clip(s string, n int) string {
	s = clean(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// left writes a rest of time as people read it: no more precise than a second.
func left(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Second {
		d = d.Round(time.Second)
	}
	return d.String()
}

// clock writes an instant in local time.
func clock(unixMs int64) string { return time.UnixMilli(unixMs).Format("2006-01-02 15:04:05") }
