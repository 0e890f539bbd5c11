package wire

// Route is one row of Routes.
type Route struct {
	Method, Path string
	Door         string // api (both doors) or control (people only)
	Secret       string // what the Authorization header carries: delegation, capability or nothing
	Body, Answer string // types of this package
	Help         string
}

// Routes is the table of the HTTP API, as docs/PROTOCOL.md shows it. A test of package
// api asks every row.
var Routes = []Route{
	{"GET", "/v1/healthz", "api", "", "", "", "is the daemon there, which build, and is its database whole"},
	{"POST", "/v1/leases", "api", "delegation", "AcquireRequest", "LeaseReply", "acquire a lease; on control.sock without a delegation, which a person gives in the same step"},
	{"GET", "/v1/leases/{lease}", "api", "capability", "", "LeaseReply", "look at a lease; the first look claims a grant"},
	{"GET", "/v1/leases/{lease}/events", "api", "capability", "", "EventRow...", "what the journal says of this lease, as server-sent events, resumable by Last-Event-ID; ?follow=0: as a list, ?after=SEQ&limit=N"},
	{"POST", "/v1/leases/{lease}/renew", "api", "capability", "RenewRequest", "LeaseReply", "more time, within the maximum lifetime"},
	{"POST", "/v1/leases/{lease}/release", "api", "capability", "", "LeaseReply", "give the slot back"},
	{"POST", "/v1/leases/{lease}/resume", "api", "capability", "ResumeRequest", "LeaseReply", "take a suspended lease up again, at a new epoch"},
	{"POST", "/v1/leases/{lease}/actions", "api", "capability", "ActRequest", "Record", "one action; answers when it is done, overdue or overtaken by the end of its epoch, or waits for a dialog of its page: then it goes on, and is looked up"},
	{"GET", "/v1/leases/{lease}/actions/{id}", "api", "capability", "", "Record", "look an action up by the client's own identifier"},
	{"POST", "/v1/leases/{lease}/ask", "api", "capability", "AskRequest", "LeaseReply", "ask a person: a sign-in, a second factor, a decision"},
	{"POST", "/v1/leases/{lease}/retain", "api", "capability", "RetainRequest", "LeaseReply", "ask for a longer maximum lifetime, before it is over"},
	{"POST", "/v1/leases/{lease}/retain/{retention}/acknowledge", "api", "capability", "", "LeaseReply", "take up what a person approved; without this nothing is kept"},
	{"GET", "/v1/queue", "api", "delegation", "", "QueueRow...", "where the delegation's requests stand that wait, and why"},
	{"POST", "/v1/leases/{lease}/answer", "control", "", "AnswerRequest", "LeaseReply", "a person answers what a lease asked, at the epoch at which it asked"},
	{"POST", "/v1/leases/{lease}/retain/{retention}/decide", "control", "", "AnswerRequest", "LeaseReply", "a person approves or refuses a longer maximum lifetime"},
	{"GET", "/v1/delegations", "control", "", "", "DelegationRow...", "the delegations"},
	{"POST", "/v1/delegations/{delegation}/revoke", "control", "", "", "DelegationRow", "take a delegation back; leases made with it go on"},
	{"POST", "/v1/bindings/{binding}/confirm", "control", "", "ConfirmRequest", "Binding", "a person attests that the slot is signed in as the binding says"},
	{"POST", "/v1/bindings/{binding}/probe", "control", "", "ProbeRequest", "ProbeReply", "have the system look at the page that the binding declares: for the account, or for what became of an action"},
	{"GET", "/v1/leases", "control", "", "", "LeaseReply...", "the leases that have not ended"},
	{"POST", "/v1/leases/{lease}/revoke", "control", "", "ChangeRequest", "LeaseReply", "a person ends a lease"},
	{"POST", "/v1/agents", "control", "", "", "AgentReply", "the process that asks, and all that descends from it, is an agent's: it gets no person's verb from now on"},
	{"GET", "/v1/slots", "control", "", "", "SlotInfo...", "the slots"},
	{"POST", "/v1/slots", "control", "", "SlotRequest", "SlotInfo", "make a slot"},
	{"GET", "/v1/slots/{slot}", "control", "", "", "SlotInfo", "one slot"},
	{"DELETE", "/v1/slots/{slot}", "control", "", "", "", "remove a slot; its epoch stays"},
	{"GET", "/v1/slots/{slot}/status", "control", "", "", "Status", "the three answers"},
	{"GET", "/v1/slots/{slot}/actions", "control", "", "", "Record...", "the ledger, the newest thousand actions, oldest first; ?before=ACTION&limit=N: older ones; ?open=1: what is not settled"},
	{"POST", "/v1/slots/{slot}/takeover", "control", "", "ChangeRequest", "Status", "control to the person; answers when the fence is acknowledged or known not to be"},
	{"POST", "/v1/slots/{slot}/handback", "control", "", "ChangeRequest", "Status", "control back, to the interrupted agent or to the queue"},
	{"POST", "/v1/slots/{slot}/start", "control", "", "ChangeRequest", "Status", "start the browser"},
	{"POST", "/v1/slots/{slot}/stop", "control", "", "ChangeRequest", "Status", "end the browser, verified"},
	{"POST", "/v1/slots/{slot}/stop-page", "control", "", "ChangeRequest", "Status", "end the pages that hold an agent's work; answers when they were seen to end, or were not"},
	{"POST", "/v1/slots/{slot}/adopt", "control", "", "ChangeRequest", "Status", "serve a slot again whose browser knows more than the database"},
	{"POST", "/v1/slots/{slot}/quarantine/lift", "control", "", "ChangeRequest", "Status", "let what is unknown be unknown"},
	{"GET", "/v1/bindings", "control", "", "", "Binding...", "the bindings"},
	{"POST", "/v1/bindings", "control", "", "BindingRequest", "Binding", "declare one"},
	{"GET", "/v1/bindings/{binding}", "control", "", "", "BindingInfo", "one binding, and what is known of its account"},
	{"DELETE", "/v1/bindings/{binding}", "control", "", "", "", "remove it, and its delegations with it"},
	{"POST", "/v1/bindings/{binding}/delegate", "control", "", "DelegateRequest", "DelegateReply", "a token with which an agent may acquire it"},
	{"GET", "/v1/actions/{action}", "control", "", "", "Record", "one action"},
	{"POST", "/v1/actions/{action}/resolve", "control", "", "ResolveRequest", "Record", "a person's verdict on a result that is not known"},
	{"GET", "/v1/quarantine", "control", "", "", "Status...", "the slots that wait for a person"},
	{"GET", "/v1/events", "control", "", "", "EventRow...", "the journal: ?after=SEQ&limit=N, ?newest=N, ?slot=SLOT; with ?follow=1 as server-sent events, resumable by Last-Event-ID"},
}
