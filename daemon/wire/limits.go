package wire

import (
	"time"

	"sessiondock.dev/sessiondock/daemon/core"
)

// Version is the protocol's version. A host or an extension of another version
// is refused with version_skew.
const Version = 1

// Sizes, in bytes. Each is a bound that a peer can rely on.
const (
	// MaxToExtension is Chromium's own bound on one native message to the browser.
	MaxToExtension = 1 << 20
	// MaxFromExtension is Chromium's own bound on one native message to a host.
	MaxFromExtension = 64 << 20
	// ChunkBytes is how much of a larger message one chunk carries before base64:
	// 4/3 of it and the envelope stay below MaxToExtension.
	ChunkBytes = 640 << 10
	// MaxMessage is the largest whole message, after joining chunks: room for a
	// 70 MB page capture in base64.
	MaxMessage = 96 << 20
	// MaxFrame is the largest frame on host.sock.
	MaxFrame = MaxMessage
	// MaxBody is the largest body of an API request: parameters of 5 MB and some room.
	MaxBody = 16 << 20
	// MaxEvidence is how many requests one action's report names; more are counted.
	MaxEvidence = core.MaxSeenRequests
	// MaxEvents is how many entries of the journal one answer holds.
	MaxEvents = 1000
	// MaxActions is how many actions of the ledger one answer holds.
	MaxActions = 1000
	// MaxURL is how much of a URL is kept in reports and records.
	MaxURL = 2048
	// MaxProbeText is how much of a page a probe may tell.
	MaxProbeText = core.MaxProbeText
	// MaxDialogText is how much of a dialog's text is told, in UTF-16 code units.
	MaxDialogText = 2000
	// MaxQueuedActions is how many actions of one lease may wait their turn.
	MaxQueuedActions = core.MaxLane
)

// Times. Those that the authority itself keeps are the core's.
const (
	// GrantTTL is how long a grant that the extension pulled opens its gate. It
	// counts from when the extension asked.
	GrantTTL = core.GrantTTLMs * time.Millisecond
	// FenceAck is how long the daemon waits for `fenced` before it calls the
	// fence unacknowledged.
	FenceAck = core.FenceAckMs * time.Millisecond
	// DrainDeadline bounds the drain; what is left then is unknown.
	DrainDeadline = core.DrainMs * time.Millisecond
	// WatchWindow is how long the requests of an action's documents are watched
	// after its local work has settled, unless the binding says otherwise.
	WatchWindow = core.DefaultWatchMs * time.Millisecond
	// ClaimWithin is how long a granted lease may stay unclaimed.
	ClaimWithin = core.ClaimMs * time.Millisecond
	// ActionDeadline is an action's deadline if the client names none.
	ActionDeadline = 30 * time.Second
	// MaxActionDeadline is the longest deadline a client may name.
	MaxActionDeadline = 10 * time.Minute
	// ProbeWait is how long a probe's page may take if its binding does not say.
	ProbeWait = core.ProbeWaitMs * time.Millisecond
	// HelloWithin bounds the handshake of a host.
	HelloWithin = 5 * time.Second
)
