package core

// Effect is something to carry out after the step's delta is durable. Effects
// that concern an epoch name it: the engine drops one whose epoch the fence
// register has left behind. All are idempotent.
type Effect interface{ effect() }

type (
	// SendWelcome accepts the hello on the slot's link. Apart: the extension has forgotten
	// which tabs are a person's, so none that is open now is lent.
	SendWelcome struct {
		Slot  SlotName
		Apart bool `json:",omitzero"`
	}

	// SendFence raises the extension's and the host's epoch.
	SendFence struct {
		Slot       SlotName
		Epoch      Epoch
		Person     bool
		FromPerson bool
		Hold       HoldID
		WatchMs    int64
	}

	// SendPoke asks the extension to pull the grant of Epoch.
	SendPoke struct {
		Slot  SlotName
		Epoch Epoch
	}

	// SendGrant answers a pull. Epoch 0: nothing is granted.
	SendGrant struct {
		Slot    SlotName
		Nonce   Nonce
		Ask     int64
		Epoch   Epoch
		Lease   LeaseID
		TTLMs   int64
		Origins []string
		Allow   []string
		WatchMs int64
	}

	// SendAction hands an admitted action to the host.
	SendAction struct {
		Slot   SlotName
		Epoch  Epoch
		Action ActionID
	}

	// SendStopWaiting tells the host that nobody waits for an action's answer any more.
	// What was dispatched stays open until it is settled.
	SendStopWaiting struct {
		Slot   SlotName
		Epoch  Epoch
		Action ActionID
	}

	// SendForget lets the extension drop its reports of closed actions.
	SendForget struct {
		Slot    SlotName
		Actions []ActionID
	}

	// SendStopPage ends the renderers of tabs.
	SendStopPage struct {
		Slot  SlotName
		Epoch Epoch
		Tabs  []Tab
	}

	// SendProbe has the extension read one page, in a background tab of its own.
	SendProbe struct {
		Slot       SlotName
		Epoch      Epoch
		Probe      ProbeID
		URL        string
		Selector   string
		Expression string
		WaitMs     int64
	}

	// StartLaunch starts the slot's browser.
	StartLaunch struct {
		Slot       SlotName
		Generation int64
	}

	// StopLaunch ends the slot's browser: clean, or at once.
	StopLaunch struct {
		Slot   SlotName
		Launch LaunchID
		Now    bool
	}
)

// Tab names a tab for a person.
type Tab struct {
	Tab   TabID
	Title string
	URL   string
}

func (SendWelcome) effect()     {}
func (SendFence) effect()       {}
func (SendPoke) effect()        {}
func (SendGrant) effect()       {}
func (SendAction) effect()      {}
func (SendForget) effect()      {}
func (SendStopWaiting) effect() {}
func (SendStopPage) effect()    {}
func (SendProbe) effect()       {}
func (StartLaunch) effect()     {}
func (StopLaunch) effect()      {}
