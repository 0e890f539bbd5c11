package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sessiondock.dev/sessiondock/daemon/core"
)

// sceneWithin bounds one scene.
const sceneWithin = 45 * time.Second

// Exit ends the program with a code after everything has been said.
type Exit struct{ Code int }

func (e *Exit) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// ExitCode is the code to end with.
func (e *Exit) ExitCode() int { return e.Code }

// Command is `sessiondock demo`. Where it ends with an *Exit everything was said.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play the handoff between an agent and a person, in a real Chromium",
		Long: `Plays the handoff between an agent and a person on a small site of its own, in a
real Chromium, and tells each scene as a timeline: who did what, under which epoch,
and the three answers. What it says of the website is the site's own count.

It has a temporary home of its own and leaves nothing behind. Run as root it drops
to an ordinary uid, so that Chromium's sandbox stays on. Its browsers have a
debugging pipe, only so that the extension's real popup can be pressed; no other
slot has one.

Last it prints one JSON line a scene, and it ends with 1 if any scene differs from
what it promises. With --json the timeline goes to standard error.

Scenes: ` + strings.Join(sceneNames(), ", ") + `.`,
		Example: `  sessiondock demo
  sessiondock demo --scene late --scene daemon
  sessiondock demo --headed`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f := c.Flags().Lookup("json"); f != nil {
				o.json = f.Value.String() == "true"
			}
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().BoolVar(&o.headed, "headed", false, "show the browser on this screen")
	c.Flags().StringArrayVar(&o.scenes, "scene", nil, "play only this scene (repeatable)")
	return c
}

func sceneNames() []string {
	names := make([]string, len(scenes))
	for i, sc := range scenes {
		names[i] = sc.name
	}
	return names
}

type options struct {
	headed bool
	json   bool
	scenes []string
}

func (o *options) run(ctx context.Context, out, messages io.Writer) error {
	chosen, err := o.choose()
	if err != nil {
		return err
	}
	if o.headed && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return core.Refuse(core.CodeInvalid, "--headed needs a screen: neither DISPLAY nor WAYLAND_DISPLAY is set", "leave --headed out")
	}
	story := out
	if o.json {
		story = messages
	}
	home, in := InHome()
	if in {
		return o.play(ctx, home, chosen, story, out)
	}
	if err := needChromium(ctx, story); errors.Is(err, ErrNoChromium) {
		return &Exit{1}
	} else if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	code, err := Rehome(Run{Args: os.Args[1:], Prepare: func(bin string) error {
		return CopyPrograms(filepath.Dir(self), bin, "sessiondockd", "sessiondock-host")
	}})
	if err == nil && code != 0 {
		return &Exit{code}
	}
	return err
}

func (o *options) choose() ([]scene, error) {
	if len(o.scenes) == 0 {
		return scenes, nil
	}
	var chosen []scene
	for _, name := range o.scenes {
		found := false
		for _, sc := range scenes {
			if sc.name == name {
				chosen, found = append(chosen, sc), true
			}
		}
		if !found {
			return nil, core.Refuse(core.CodeInvalid, fmt.Sprintf("there is no scene %q", name), "there are: "+strings.Join(sceneNames(), ", "))
		}
	}
	return chosen, nil
}

// play plays the scenes one after the other, each with a slot of its own.
func (o *options) play(ctx context.Context, home Home, chosen []scene, story, out io.Writer) error {
	site, err := OpenSite()
	if err != nil {
		return err
	}
	defer site.Close()
	daemon, err := StartDaemon(ctx, home, "pipe")
	if err != nil {
		return err
	}
	fmt.Fprintf(story, `SessionDock's handoff, on %s.
The browsers of this demonstration have a debugging pipe, only so that the popup can
be pressed as a person would press it. No other slot has one.
`, site.Origin())
	var outcomes []Outcome
	differ := 0
	for i, sc := range chosen {
		fmt.Fprintf(story, "\n%d. %s  [%s]\n", i+1, sc.title, sc.name)
		s := &stage{out: story, site: site, daemon: daemon, scene: sc.name, page: sc.page}
		s.outcome.Scene = sc.name
		o.playOne(ctx, s, sc)
		if len(s.problems) > 0 {
			differ++
		}
		outcomes = append(outcomes, s.outcome)
	}
	if err := daemon.Stop(); err != nil {
		return err
	}
	fmt.Fprintln(story)
	enc := json.NewEncoder(out)
	for _, oc := range outcomes {
		if err := enc.Encode(oc); err != nil {
			return err
		}
	}
	if differ > 0 {
		if log, err := daemon.Log(); err == nil {
			fmt.Fprintf(story, "The daemon's log ends:\n%s\n", log)
		}
		fmt.Fprintf(story, "%d of %d scenes differ from what they promise.\n", differ, len(chosen))
		return &Exit{1}
	}
	return nil
}

// playOne plays a scene and compares what it came to with what it promises.
func (o *options) playOne(ctx context.Context, s *stage, sc scene) {
	display := "headless"
	if o.headed {
		display = "window"
	}
	within, cancel := context.WithTimeout(ctx, sceneWithin)
	defer cancel()
	err := s.open(within, display, sc.query)
	if err == nil {
		err = sc.play(within, s)
	}
	s.outcome.SiteSaves = s.site.Count(sc.name).Total
	if err != nil {
		s.differs("%v", err)
	} else {
		sc.compare(s)
	}
	closing, cancel := context.WithTimeout(ctx, sceneWithin)
	defer cancel()
	if err := s.close(closing); err != nil {
		s.differs("at the end: %v", err)
	}
}
