package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
)

// A command without Run is a help topic to cobra.

func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("The exit code says what kind of end it was. Scripts decide on it, or on the code\nthat stands after \"error:\".\n\n   0  done; for act: finished, and the website's answer is not unknown\n")
	for _, exit := range []struct {
		code int
		text string
	}{
		{1, "refused or failed; the code after \"error:\" says why"},
		{2, "the command line or the request is wrong"},
		{notSecure, "doctor: slots can be used, and a promise about them does not hold"},
		{10, "the daemon, or the browser behind it, cannot be reached"},
		{11, "the slot is busy, or no more browsers may run; ask again"},
		{12, "the lease is lost: fenced or expired"},
		{13, "held by a person or by another agent"},
		{14, "quarantined: something unknown must be settled first"},
		{15, "outcome unknown: do not send it again, look it up"},
		{16, "a wait ended; what was asked may still happen, if it was dispatched"},
	} {
		var codes []string
		for _, i := range core.Codes {
			if i.Exit == exit.code {
				codes = append(codes, string(i.Code))
			}
		}
		fmt.Fprintf(&b, "  %2d  %s\n", exit.code, exit.text)
		b.WriteString(wrap("      ", strings.Join(codes, ", ")))
	}
	return &cobra.Command{Use: "exit-codes", Short: "What each exit code means", Long: strings.TrimRight(b.String(), "\n")}
}

func outputTopic() *cobra.Command {
	return &cobra.Command{Use: "output", Short: "What goes to standard output, and what --json prints", Long: `Data goes to standard output; messages, warnings and errors go to standard error.

With --json a command prints the API's own object, and a list as an array; an
empty list is []. "events --follow --json" prints one object a line. The shape is
versioned: "sessiondock version --json" names it as "schema". Within one version
members are only added.

An error is two lines on standard error, with and without --json:
  error: CODE: what happened
  hint: what to do about it

Colour is used on a terminal only, and not if NO_COLOR is set.`}
}

func environmentTopic() *cobra.Command {
	return &cobra.Command{Use: "environment", Short: "Variables that are read, and where the files lie", Long: `  SESSIONDOCK_DELEGATION   lease acquire, mcp: the token of "sessiondock delegate"
  SESSIONDOCK_LEASE        act, lease, retain: the lease, where the command line
                           names none
  SESSIONDOCK_CAPABILITY   act, lease renew, release, resume, ask, retain request,
                           acknowledge: the lease's secret
  SESSIONDOCK_EPOCH        act, mcp: the epoch that the command is meant for
  SESSIONDOCK_SOCKET       the agents' socket, where it is not the usual one
  SESSIONDOCK_CDP_URL      set by "run" and "lease acquire": where a DevTools client
                           (Playwright, Puppeteer) connects; good for one epoch
  SESSIONDOCK_AGENT        set by "run": what is started with it is an agent's
  SESSIONDOCK_CONFINED     set by "run --confine": the person's door is not there
  NO_COLOR                 no colour, if not empty

  $XDG_RUNTIME_DIR/sessiondock/   control.sock (people), api/api.sock (agents)
  $XDG_STATE_HOME/sessiondock/    the database, the log of a detached daemon
  $XDG_DATA_HOME/sessiondock/     the slots' profiles, in slots/NAME
  $XDG_CONFIG_HOME/sessiondock/   settings
  $XDG_CACHE_HOME/sessiondock/    browser caches

Without XDG_RUNTIME_DIR the sockets lie in /run/user/UID, or, where there is none,
in /tmp/sessiondock-UID. The directory must be yours alone (mode 0700). With other
XDG variables a second installation runs beside the first.`}
}
