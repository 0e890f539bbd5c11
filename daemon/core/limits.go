package core

// EpochChunk is how many epochs are reserved at a time. A takeover needs no write
// as long as its number is below the durable ceiling.
const EpochChunk = 100

// Limits of the core, in milliseconds and counts. Package wire shows them to peers.
const (
	FenceAckMs      = 2_000       // until a fence without an answer is unacknowledged
	DrainMs         = 30_000      // until what a drain has not settled is unknown
	RejoinMs        = 10_000      // the same after a restart of the daemon, while hosts come back
	DrainGraceMs    = 2_000       // for the answer to a drain that used its whole time
	DefaultWatchMs  = 5_000       // requests are watched so long after local work settled
	ClaimMs         = 5_000       // a ready grant is claimed so soon or withdrawn
	GrantTTLMs      = 15_000      // a pulled grant opens the extension's gate so long
	DefaultLeaseMs  = 600_000     // if a lease asks for no time
	DefaultMaxMs    = 28_800_000  // a binding's maximum lifetime if it names none
	MaxLeaseMs      = 604_800_000 // no lifetime is longer: seven days
	MaxWaitMs       = 86_400_000  // no wait is longer: a day
	DelegationMs    = 86_400_000  // a delegation's life if none is named
	MaxDelegationMs = 2_592_000_000
	MaxLane         = 64   // actions of one lease that wait their turn
	MaxWaiters      = 1000 // waiters of one slot
	MaxSlots        = 10_000
	MaxSeenRequests = 64 // requests kept with one action
	MaxEvidenceRows = 64
	MaxKeys         = 100 // conflict keys of one lease
	MaxPassed       = 8   // how often a waiter may be passed because of its keys
	MaxPerMinute    = 100_000
	MaxPriority     = 100 // either way
	LaunchMB        = 400 // what a browser is taken to need before it is measured

	ProbeWaitMs     = 10_000  // a page may take so long if its probe does not say
	MaxProbeWaitMs  = 60_000  // whoever waits for the slot waits for that too
	ProbeGraceMs    = 3_000   // to open and close the tab, and for the answer's way
	ProbeAgainMs    = 30_000  // before a page that gave no match is loaded again
	AccountMs       = 900_000 // a match counts no longer: sessions at websites end by themselves
	MaxProbeURL     = 2048
	MaxProbeCode    = 4096 // of a selector or an expression
	MaxProbePattern = 256  // it is matched in the one writer
	MaxProbeText    = 4096 // of a page, compared
	MaxProbeShown   = 200  // of that, shown to a person
	MaxProbesDone   = 8    // kept for those who wait for them
)
