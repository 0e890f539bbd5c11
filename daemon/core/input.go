package core

// Input is one thing that happens to the authority. Everything that Step needs to
// know is in it: identifiers and hashes are drawn by the caller.
type Input interface{ input() }

// By names the principal of an input, for the journal: "human:cli", "agent:NAME",
// "system", "extension", "supervisor".
type By = string

// Inputs of people.
type (
	CreateSlot struct {
		Name    SlotName
		Display string
		By      By
	}
	RemoveSlot struct {
		Name SlotName
		By   By
	}
	Bind struct {
		Spec BindingSpec
		By   By
	}
	RemoveBinding struct {
		Name BindingName
		By   By
	}
	Delegate struct {
		ID       DelegationID
		Hash     string // SHA-256 of the token
		Binding  BindingName
		Agent    AgentName
		ForMs    int64
		Priority int
		By       By
	}
	RevokeDelegation struct {
		ID DelegationID
		By By
	}
	// Confirm is a person's word that the slot is signed in as the binding says.
	Confirm struct {
		Binding BindingName
		Note    string
		IfEpoch *Epoch
		By      By
	}
	// RunProbe has the system look at the page that a binding declares: for the account,
	// or for what became of an action.
	RunProbe struct {
		Binding BindingName
		Action  ActionID // empty: the account
		IfEpoch *Epoch
		By      By
	}
	// AnswerAsk is a person's answer to what an agent asked, at the epoch at which it
	// was asked.
	AnswerAsk struct {
		Lease   LeaseID
		Granted bool
		Note    string
		IfEpoch *Epoch
		By      By
	}
	// DecideRetention approves or refuses a longer maximum lifetime.
	DecideRetention struct {
		Lease    LeaseID
		ID       RetentionID
		Approved bool
		Note     string
		IfEpoch  *Epoch
		By       By
	}
	// Takeover gives the slot to a person. Epoch is the number that the fence
	// register issued; the fence has been sent already.
	Takeover struct {
		Slot       SlotName
		Epoch      Epoch
		Surface    string // popup, cli, ...
		Hold       HoldID
		IfEpoch    *Epoch
		FromPerson bool
		By         By
	}
	Handback struct {
		Slot    SlotName
		To      AgentName // the interrupted agent, or empty: the queue
		IfEpoch *Epoch
		Confirm bool
		By      By
	}
	StopPage struct {
		Slot    SlotName
		IfEpoch *Epoch
		Tabs    []Tab
		By      By
	}
	StartSlot struct {
		Slot    SlotName
		IfEpoch *Epoch
		By      By
	}
	StopSlot struct {
		Slot    SlotName
		Now     bool
		IfEpoch *Epoch
		By      By
	}
	Revoke struct { // a person ends a lease
		Lease   LeaseID
		Note    string
		IfEpoch *Epoch
		By      By
	}
	Resolve struct {
		Action  ActionID
		Verdict Remote
		Note    string
		IfEpoch *Epoch
		By      By
	}
	Lift struct {
		Slot    SlotName
		Note    string
		IfEpoch *Epoch
		By      By
	}
	Adopt struct {
		Slot    SlotName
		Note    string
		IfEpoch *Epoch
		By      By
	}
)

// Inputs of agents. Cap is the SHA-256 of the capability that came.
type (
	Acquire struct {
		Lease     LeaseID
		Token     string // SHA-256 of the delegation's token; empty for a person
		Person    bool   // over control.sock: delegates and acquires in one step
		CapHash   string // SHA-256 of the new capability
		RequestID string
		Binding   BindingName
		Agent     AgentName
		Task      string
		Keys      []string // KEY[:shared], besides the binding's
		Priority  int      // of a person's own request; others have their delegation's
		ForMs     int64
		WaitMs    int64 // 0: granted at once or refused, and a stopped browser is not started
		By        By
	}
	CancelWait struct {
		Lease LeaseID
		Cap   string // of the request that gives up; another request may have taken its place
		Why   string
	}
	Claim struct { // any authenticated look at a lease
		Lease LeaseID
		Cap   string
	}
	Renew struct {
		Lease LeaseID
		Cap   string
		ForMs int64
	}
	Release struct {
		Lease LeaseID
		Cap   string
	}
	Resume struct {
		Lease LeaseID
		Cap   string
	}
	AskPerson struct { // for a sign-in, a second factor, a decision
		Lease  LeaseID
		Cap    string
		Reason string
	}
	Retain struct { // asks for a longer maximum lifetime
		Lease  LeaseID
		Cap    string
		ID     RetentionID
		ForMs  int64 // from the approval on
		Reason string
	}
	Acknowledge struct { // takes an approved retention up
		Lease LeaseID
		Cap   string
		ID    RetentionID
	}
	Act struct {
		Action     ActionID
		Lease      LeaseID
		Cap        string
		ID         ClientID
		Epoch      Epoch
		Verb       string
		Class      Class
		Summary    string // never contains what is typed
		BodyHash   string
		Expect     Expect
		NeedsDoc   bool   // acts in the document last reported to this agent
		Beside     bool   // may run beside another action: dialog
		URL        string // navigate: for the binding's origins
		DeadlineMs int64
		Bytes      int64 // of the request's body
	}
)

// Inputs of the extension and the host, over an attested link.
type (
	LinkUp struct { // a host was attested; its extension has not said hello yet
		Slot  SlotName
		Nonce Nonce
	}
	Hello struct {
		Slot     SlotName
		Nonce    Nonce
		Instance InstanceID
		Mark     Epoch
		MarkSeq  int64
		Person   bool
		Anew     bool   // it remembers nothing of this run of the browser, which may have just begun
		Hold     HoldID // empty: none
		StopPage bool   // the hold asks for it
		Tabs     []Tab
		Reports  []Report
	}
	LinkLost struct {
		Slot  SlotName
		Nonce Nonce
		Why   string
	}
	Fenced struct {
		Slot      SlotName
		Nonce     Nonce
		Epoch     Epoch
		Reports   []Report
		Documents []DocNow
	}
	Drained struct {
		Slot      SlotName
		Nonce     Nonce
		Epoch     Epoch
		Reports   []Report
		Documents []DocNow // agent_script documents that are still open
	}
	DocumentFound struct {
		Slot     SlotName
		Nonce    Nonce
		Document DocumentID
		URL      string
	}
	DocumentEnded struct {
		Slot     SlotName
		Nonce    Nonce
		Document DocumentID
		How      string
	}
	Reported struct {
		Slot   SlotName
		Nonce  Nonce
		Report Report
	}
	Pull struct {
		Slot  SlotName
		Nonce Nonce
		Ask   int64
	}
	Granted struct {
		Slot  SlotName
		Nonce Nonce
		Epoch Epoch
	}
	ProbeDone struct { // what was seen at the page of a probe
		Slot  SlotName
		Nonce Nonce
		Probe ProbeID
		Epoch Epoch
		State string // seen, absent, several, elsewhere, silent, refused
		Text  string // of seen: what was read; of refused: why
		Cut   bool   // there was more than is compared
		URL   string // where the page was: origin and path
	}
	Done struct { // the host's last word on an action
		Slot     SlotName
		Nonce    Nonce
		Action   ActionID
		Epoch    Epoch
		State    string // finished, failed, refused, halted, unknown
		Error    *Error
		Steps    Steps
		Observed *Expect
		URL      string
		Bytes    int64 // of the result
	}
)

// Report is the extension's report of one action.
type Report struct {
	Action     ActionID
	Rev        int64
	Dispatched int
	Open       int
	Tab        TabID
	Document   DocumentID
	Script     bool
	How        string
	HowRule    string
	Requests   map[string]SeenCall
	More       int
}

// Inputs of the supervisor and the system.
type (
	LaunchStarting struct { // before the browser is started
		Slot       SlotName
		Generation int64
		Launch     LaunchID
		SecretHash string
		Debug      string
		Unit       string // the name it will have, so that a daemon which dies now leaves it findable
	}
	LaunchRunning struct {
		Slot   SlotName
		Launch LaunchID
		Identity
	}
	LaunchEnded struct {
		Slot        SlotName
		Launch      LaunchID
		Verified    bool
		Containment string
		Clean       bool // the browser has written all that it had
		How         string
	}
	Saved struct { // what a person confirmed has reached the disk
		Slot    SlotName
		Launch  LaunchID
		Binding BindingName
		AtMs    int64 // of the confirmation
		How     string
	}
	Overdue struct { // an action's deadline came before it could be handed to the host
		Action ActionID
	}
	Bypassed struct { // ways round the fence that are open in a launch
		Slot   SlotName
		Launch LaunchID
		Ways   []string
	}
	Measured struct { // what running browsers use of the memory
		MemoryMB map[SlotName]int64
	}
	Restarted struct { // the daemon has loaded its journal
		// Clean names the slots whose browser had ended cleanly before the machine was
		// restarted.
		Clean map[SlotName]bool
	}
	Tick struct{}
)

func (CreateSlot) input()       {}
func (RemoveSlot) input()       {}
func (Bind) input()             {}
func (RemoveBinding) input()    {}
func (Delegate) input()         {}
func (RevokeDelegation) input() {}
func (Confirm) input()          {}
func (RunProbe) input()         {}
func (ProbeDone) input()        {}
func (AnswerAsk) input()        {}
func (DecideRetention) input()  {}
func (AskPerson) input()        {}
func (Retain) input()           {}
func (Acknowledge) input()      {}
func (Bypassed) input()         {}
func (Measured) input()         {}
func (Takeover) input()         {}
func (Handback) input()         {}
func (StopPage) input()         {}
func (StartSlot) input()        {}
func (StopSlot) input()         {}
func (Revoke) input()           {}
func (Resolve) input()          {}
func (Lift) input()             {}
func (Adopt) input()            {}
func (Acquire) input()          {}
func (CancelWait) input()       {}
func (Claim) input()            {}
func (Renew) input()            {}
func (Release) input()          {}
func (Resume) input()           {}
func (Act) input()              {}
func (LinkUp) input()           {}
func (Hello) input()            {}
func (LinkLost) input()         {}
func (Fenced) input()           {}
func (Drained) input()          {}
func (DocumentFound) input()    {}
func (DocumentEnded) input()    {}
func (Reported) input()         {}
func (Pull) input()             {}
func (Granted) input()          {}
func (Done) input()             {}
func (LaunchStarting) input()   {}
func (LaunchRunning) input()    {}
func (LaunchEnded) input()      {}
func (Saved) input()            {}
func (Overdue) input()          {}
func (Restarted) input()        {}
func (Tick) input()             {}
