package supervise

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/coreos/go-systemd/v22/unit"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/peer"
)

// unitPrefix begins the name of every unit of ours.
const unitPrefix = "sessiondock-"

const (
	// stopUnitWithin is when the manager kills what is left of a unit that was told to
	// stop: the keeper's own steps, and a second for it to verify and go.
	stopUnitWithin = intWithin + termWithin + lingerWithin + time.Second
	// unendedAfter is how long what is not ours to end may keep a verification from
	// its end.
	unendedAfter = time.Second
)

// Systemd is the supervisor of a machine with a user manager. Each launch is a
// transient unit whose main process is the launch's keeper; the keeper does what it
// does under Direct, and the unit's control group is the wall around it all.
type Systemd struct {
	kept    *Direct
	manager *manager

	bypasses *bypasses

	mu     sync.Mutex
	groups map[core.LaunchID]*group // held while their launches are not known to have ended
}

var _ Supervisor = (*Systemd)(nil)

// NewSystemd returns a Systemd. The manager is not asked before the first use.
func NewSystemd(c Config) *Systemd {
	s := &Systemd{kept: New(c), manager: &manager{address: c.Bus}, groups: map[core.LaunchID]*group{}}
	s.bypasses = newBypasses(s.kept.profile, s.members)
	return s
}

// Check says why launches cannot be held by the user manager here.
func (s *Systemd) Check(ctx context.Context) error { return s.manager.check(ctx) }

// Close lets go of the manager and of what is held of launches, which go on.
func (s *Systemd) Close() {
	s.manager.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, g := range s.groups {
		g.close()
		delete(s.groups, id)
	}
}

// Name is "systemd".
func (s *Systemd) Name() string { return "systemd" }

// Unit names a launch's unit after the slot, the generation and the launch, so that
// no other launch ever has the same name.
func (s *Systemd) Unit(slot core.SlotName, generation int64, l core.LaunchID) string {
	return fmt.Sprintf("%s%s-g%d-%s.service", unitPrefix, slot, generation, l)
}

func sliceOf(slot core.SlotName) string {
	return unitPrefix + unit.UnitNameEscape(string(slot)) + ".slice"
}

// Start starts the browser in a unit of its own.
func (s *Systemd) Start(ctx context.Context, spec Spec) (core.Identity, error) {
	id, err := s.kept.start(ctx, spec, s.run)
	if e, ok := errors.AsType[*silentKeeper](err); ok {
		return core.Identity{}, e.refusal(s.Stop(context.WithoutCancel(ctx), spec.Slot, core.Launch{ID: spec.Launch, Identity: e.id}, StopNow))
	}
	return id, err
}

// run has the manager start a keeper, and records what it started.
func (s *Systemd) run(ctx context.Context, spec Spec, files keeperFiles, argv []string) (core.Identity, error) {
	conn, err := s.manager.connect(ctx)
	if err != nil {
		return core.Identity{}, notStarted(core.Refuse(core.CodeUnavailable, "the browser's unit cannot be started: "+err.Error(),
			"look at: systemctl --user status"))
	}
	if argv[0], err = filepath.EvalSymlinks(argv[0]); err != nil { // the manager's /proc/self is not ours
		return core.Identity{}, notStarted(err)
	}
	name := s.Unit(spec.Slot, spec.Generation, spec.Launch)
	done := make(chan string, 1)
	if _, err := conn.StartTransientUnitContext(ctx, name, "fail", properties(spec, files, argv), done); err != nil {
		if _, refused := errors.AsType[dbus.Error](err); refused {
			return core.Identity{}, notStarted(core.Refuse(core.CodeUnavailable, "the user manager refused the browser's unit: "+err.Error(),
				"look at: systemctl --user status"))
		}
		return core.Identity{}, s.silent(name, err, ctx, files)
	}
	select {
	case result := <-done:
		if result != "done" {
			err = fmt.Errorf("the user manager could not start unit %s: %s", name, result)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return core.Identity{}, s.silent(name, err, ctx, files)
	}
	id, err := s.identify(ctx, core.Launch{ID: spec.Launch, Identity: core.Identity{Unit: name}})
	if err != nil {
		return core.Identity{}, s.silent(name, err, ctx, files)
	}
	return id, nil
}

func (s *Systemd) silent(name string, why error, ctx context.Context, files keeperFiles) error {
	return &silentKeeper{id: core.Identity{Unit: name}, why: why, late: ctx.Err() != nil, log: files.log.Name()}
}

// properties are a launch's unit.
func properties(spec Spec, files keeperFiles, argv []string) []systemd.Property {
	set := func(name string, v any) systemd.Property {
		return systemd.Property{Name: name, Value: dbus.MakeVariant(v)}
	}
	return []systemd.Property{
		systemd.PropDescription(fmt.Sprintf("SessionDock slot %s, launch %d", spec.Slot, spec.Generation)),
		systemd.PropSlice(sliceOf(spec.Slot)),
		systemd.PropType("exec"), // the start is reported once the keeper runs, not before
		systemd.PropExecStart(argv, false),
		// A stop is SIGINT to the keeper, which ends the browser cleanly; what is left
		// after that is killed.
		set("KillMode", "mixed"),
		set("KillSignal", int32(unix.SIGINT)),
		set("SendSIGKILL", true),
		set("TimeoutStopUSec", uint64(stopUnitWithin.Microseconds())),
		// A renderer that runs out of memory is one tab's trouble.
		set("OOMPolicy", "continue"),
		set("UMask", uint32(0o077)),
		set("StandardInputFileDescriptor", dbus.UnixFD(files.spec.Fd())),
		set("StandardOutputFileDescriptor", dbus.UnixFD(files.report.Fd())),
		set("StandardErrorFileDescriptor", dbus.UnixFD(files.log.Fd())),
	}
}

// identify reads what the manager and the kernel say of a launch's unit, which has a
// living keeper, and takes hold of its control group.
func (s *Systemd) identify(ctx context.Context, l core.Launch) (core.Identity, error) {
	u, err := s.manager.unit(ctx, l.Unit)
	if err != nil {
		return core.Identity{}, err
	}
	if !u.running() {
		return core.Identity{}, fmt.Errorf("unit %s is not running", l.Unit)
	}
	if !u.is(l) {
		return core.Identity{}, replaced(l, u)
	}
	pid, path, err := s.manager.process(ctx, l.Unit)
	if err != nil {
		return core.Identity{}, err
	}
	keeper, err := peer.Read(pid)
	if err != nil {
		return core.Identity{}, err
	}
	g, err := openGroup(path)
	if err != nil {
		return core.Identity{}, err
	}
	if l.GroupID != 0 && g.ID != l.GroupID {
		g.close()
		return core.Identity{}, fmt.Errorf("control group %s has been made anew since the launch was recorded", path)
	}
	s.hold(l.ID, g)
	id := l.Identity
	id.InvocationID, id.CreatedUs, id.Containment = u.invocation, u.created, "full"
	id.KeeperPID, id.KeeperStart = keeper.PID, keeper.StartTime
	id.ControlGroup, id.GroupID = path, g.ID
	return id, nil
}

func replaced(l core.Launch, u unitState) error {
	return fmt.Errorf("unit %s runs with invocation %s, and the launch's was %s: somebody else has started it anew", l.Unit, u.invocation, l.InvocationID)
}

func (s *Systemd) hold(l core.LaunchID, g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.groups[l]; old != nil {
		old.close()
	}
	s.groups[l] = g
}

// group returns the launch's control group, or nil if it is gone. A group of another
// number at the same path is another's.
func (s *Systemd) group(l core.Launch) (*group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[l.ID]; g != nil {
		return g, nil
	}
	if l.ControlGroup == "" {
		return nil, errors.New("the launch's control group was never recorded")
	}
	g, err := openGroup(l.ControlGroup)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if g.ID != l.GroupID {
		g.close()
		return nil, nil
	}
	s.groups[l.ID] = g
	return g, nil
}

func (s *Systemd) forget(ctx context.Context, l core.Launch) {
	s.kept.forget(l.ID)
	s.manager.forget(ctx, l.Unit)
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[l.ID]; g != nil {
		g.close()
		delete(s.groups, l.ID)
	}
}

// Adopt finds a launch of an earlier daemon.
func (s *Systemd) Adopt(ctx context.Context, slot core.SlotName, l core.Launch) (core.Identity, error) {
	if e := checkLaunch(slot, l); e != nil {
		return core.Identity{}, e
	}
	f := s.kept.find(ctx, slot, l)
	switch f.standing {
	case answering:
		id, err := s.identify(ctx, l)
		if err != nil {
			return core.Identity{}, unclear(err)
		}
		if met := s.kept.met(l); id.KeeperPID != met.KeeperPID || id.KeeperStart != met.KeeperStart {
			return core.Identity{}, unclear(fmt.Errorf("pid %d answers as the launch's keeper, and is not the main process of unit %s", met.KeeperPID, l.Unit))
		}
		return id, nil
	case silent:
		return core.Identity{}, unclear(f.why)
	}
	return core.Identity{}, notRunning(slot, s.proved(ctx, slot, l, false))
}

// Wait returns when the launch has ended or can no longer be watched.
func (s *Systemd) Wait(ctx context.Context, slot core.SlotName, l core.Launch) Ended {
	e := s.kept.Wait(ctx, slot, l)
	if ctx.Err() != nil {
		return e
	}
	return s.proved(ctx, slot, l, false)
}

// Stop ends the launch by a job of the manager. If ctx has no deadline, it takes one
// of its own.
func (s *Systemd) Stop(ctx context.Context, slot core.SlotName, l core.Launch, mode StopMode) Ended {
	if e := checkLaunch(slot, l); e != nil {
		return s.unknown(e.Message)
	}
	ctx, cancel := context.WithTimeout(ctx, stopWithin+answerWithin)
	defer cancel()
	u, err := s.manager.unit(ctx, l.Unit)
	switch {
	case err != nil:
		return s.unknown("the launch was not told to end: " + err.Error())
	case u.known && !u.is(l):
		e := s.proved(ctx, slot, l, false)
		e.How = replaced(l, u).Error() + ", and that one was left alone; of the launch itself: " + e.How
		return e
	case !u.running():
		return s.proved(ctx, slot, l, true)
	}
	done, err := s.manager.stop(ctx, l.Unit)
	if err != nil {
		return s.unknown("the launch was not told to end: " + err.Error())
	}
	if mode == StopNow {
		s.kept.Stop(ctx, slot, l, StopNow) // hastens what the manager has begun
	}
	select {
	case result := <-done:
		if result != "done" {
			return s.unknown(fmt.Sprintf("the user manager's stop of unit %s ended with %q", l.Unit, result))
		}
	case <-ctx.Done():
		return s.unknown(fmt.Sprintf("the user manager did not report the stop of unit %s done in time", l.Unit))
	}
	return s.proved(ctx, slot, l, true)
}

func (s *Systemd) unknown(how string) Ended { return Ended{Containment: "full", How: how} }

// proved says what is verified of a launch's end. With end it kills what is the
// launch's beyond doubt.
func (s *Systemd) proved(ctx context.Context, slot core.SlotName, l core.Launch, end bool) Ended {
	f, left := s.searched(ctx, slot, l, end)
	if f.standing == ended && otherBoot(l) {
		return f.end
	}
	e := Ended{Containment: "full", Left: left}
	if len(left) > 0 {
		e.How = "the launch was to end, and it could not be verified that nothing is left of it: " + left[0]
		return e
	}
	e.Verified = true
	e.Clean = f.standing == ended && f.end.Clean
	word := f.end.How
	if f.standing != ended {
		// Nobody has watched that no descendant is left, in whatever group.
		e.Containment = containment
		word = "its keeper is gone and left no record, so that a process which had left the control group would not be known"
	}
	group := "its control group is empty"
	if l.GroupID == 0 {
		group = "its control group was never recorded"
	}
	e.How = fmt.Sprintf("%s; the user manager no longer runs its unit, %s, and two looks %d ms apart found nothing else of it",
		word, group, agreeAfter.Milliseconds())
	s.forget(ctx, l)
	return e
}

// searched looks for what is left of a launch. A keeper that lives, or may live, and does
// not answer is waited for: what may be about to start cannot have ended.
func (s *Systemd) searched(ctx context.Context, slot core.SlotName, l core.Launch, end bool) (whereabouts, []string) {
	patient, cancel := context.WithTimeout(ctx, killWithin)
	defer cancel()
	for {
		f := s.kept.find(ctx, slot, l)
		if f.standing == ended && otherBoot(l) {
			return f, nil
		}
		sc := s.kept.scope(slot, l, f.successor)
		sc.group = l.ControlGroup
		left := s.settle(ctx, l, sc, end)
		if f.standing != silent || len(left) > 0 {
			return f, left
		}
		if !sleep(patient, watchEvery) {
			return f, []string{f.why.Error()}
		}
	}
}

// settle looks until two looks, agreeAfter apart, find nothing. It returns what was
// left when it gave up; nil is verified.
func (s *Systemd) settle(ctx context.Context, l core.Launch, sc scope, end bool) []string {
	ctx, cancel := context.WithTimeout(ctx, killWithin)
	defer cancel()
	var clear, stuck time.Time // of the first look that found nothing, or nothing to end
	for {
		left, going := s.look(ctx, l, sc, end)
		switch {
		case len(left) == 0 && !clear.IsZero():
			return nil
		case len(left) == 0:
			clear, stuck = time.Now(), time.Time{}
		case going:
			clear, stuck = time.Time{}, time.Time{}
		case stuck.IsZero():
			clear, stuck = time.Time{}, time.Now()
		case time.Since(stuck) > unendedAfter:
			return left
		}
		pause := 10 * time.Millisecond
		if len(left) == 0 {
			pause = agreeAfter
		} else if !going {
			pause = agreeAfter / 2
		}
		if !sleep(ctx, pause) {
			if len(left) == 0 {
				left = []string{"the second look was not taken"}
			}
			return left
		}
	}
}

// look says what is left of a launch, and whether it is on its way out.
func (s *Systemd) look(ctx context.Context, l core.Launch, sc scope, end bool) (left []string, going bool) {
	u, err := s.manager.unit(ctx, l.Unit)
	if err != nil {
		return []string{err.Error()}, false
	}
	if u.is(l) && u.running() {
		return []string{"unit " + l.Unit + ": is " + u.active}, end || u.active == "deactivating"
	}
	g, err := s.group(l)
	if err != nil && l.GroupID != 0 {
		return []string{err.Error()}, false
	}
	if g != nil {
		full, err := g.populated()
		if err != nil {
			return []string{err.Error()}, false
		}
		if full {
			for _, p := range g.processes() {
				left = append(left, p.String()+": is in the launch's control group")
			}
			if end {
				if err := g.kill(); err != nil {
					return append(left, err.Error()), false
				}
			}
			return append(left, "control group "+g.Path+": is populated"), end
		}
	}
	found, err := sc.lookDeep()
	if err != nil {
		return []string{"the processes could not be listed: " + err.Error()}, false
	}
	for _, f := range found {
		if f.kind == ours && end && sendSignal(f.proc, unix.SIGKILL) == nil {
			going = true
		}
	}
	left = describe(found)
	strays, err := s.manager.strays(ctx, l.CreatedUs)
	if err != nil {
		return append(left, err.Error()), going
	}
	left = append(left, strays...)
	if open := devTools(sc.profile); open != "" {
		left = append(left, open)
	}
	return left, going
}

// Owns says whether a process is in the launch's own control group.
func (s *Systemd) Owns(l core.Launch, who peer.Cred) *core.Error {
	if l.GroupID == 0 {
		return core.Refuse(core.CodeDenied, "the launch's control group is not known", "restart the slot's browser")
	}
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	u, err := s.manager.unit(ctx, l.Unit)
	switch {
	case err != nil:
		return core.Refuse(core.CodeUnavailable, "the launch's unit cannot be looked at: "+err.Error(), "look at: systemctl --user status")
	case !u.running():
		return core.Refuse(core.CodeDenied, fmt.Sprintf("the launch's unit %s has ended", l.Unit), "start the slot again")
	case !u.is(l):
		return core.Refuse(core.CodeDenied, replaced(l, u).Error(), "stop that unit, and start the slot again")
	}
	g, err := who.Group()
	if err != nil {
		return core.Refuse(core.CodeDenied, "the peer's control group could not be established: "+err.Error(), "try again")
	}
	if g.ID == l.GroupID {
		return nil
	}
	const hint = "only the host that the slot's own browser started may connect"
	if name := filepath.Base(g.Path); strings.HasPrefix(name, unitPrefix) && strings.HasSuffix(name, ".service") {
		return core.Refuse(core.CodeDenied, fmt.Sprintf("pid %d is in unit %s, which is another launch's", who.PID, name), hint)
	}
	return core.Refuse(core.CodeDenied, fmt.Sprintf("pid %d is in control group %s, outside of the launch's unit", who.PID, g.Path), hint)
}

// members are the processes of the launch's control group.
func (s *Systemd) members(l core.Launch) []peer.Proc {
	g, err := s.group(l)
	if err != nil || g == nil {
		return nil
	}
	return g.processes()
}

// Bypasses names the ways round the fence that are open.
func (s *Systemd) Bypasses(all map[core.SlotName]core.Launch) map[core.SlotName][]string {
	return s.bypasses.look(all)
}

// MemoryMB is what the processes of the launch's control group use of the machine's
// memory, counted as Direct counts.
func (s *Systemd) MemoryMB(l core.Launch) int64 {
	var kb int64
	for _, p := range s.members(l) {
		kb += pss(p.PID)
	}
	return kb >> 10
}
