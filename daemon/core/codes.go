package core

import "fmt"

// Code is the machine-readable kind of a refusal. Clients decide on the code
// alone; Codes is the only table of them.
type Code string

// The codes. Their meaning, HTTP status, exit code and retry class stand in Codes.
const (
	CodeInvalid         Code = "invalid"
	CodeUnauthenticated Code = "unauthenticated"
	CodeDenied          Code = "denied"
	CodeNotFound        Code = "not_found"
	CodeConflict        Code = "conflict"
	CodeHeld            Code = "held"
	CodeFenced          Code = "fenced"
	CodeExpired         Code = "expired"
	CodeQuarantined     Code = "quarantined"
	CodeDocumentChanged Code = "document_changed"
	CodeAccountMismatch Code = "account_mismatch"
	CodeOutcomeUnknown  Code = "outcome_unknown"
	CodePolicy          Code = "policy"
	CodeCapacity        Code = "capacity"
	CodeBusy            Code = "busy"
	CodeLimit           Code = "limit"
	CodeDeadline        Code = "deadline"
	CodeUnavailable     Code = "unavailable"
	CodeEpochRegression Code = "epoch_regression"
	CodeVersionSkew     Code = "version_skew"
	CodeInternal        Code = "internal"
)

// Retry tells a client what may be sent after a refusal.
type Retry string

const (
	RetryNever Retry = "no"           // the same wish will be refused again
	RetrySame  Retry = "same request" // the same request, same identifier, may be sent later
	RetryNew   Retry = "new request"  // something must be changed, observed or acquired first
)

// CodeInfo is one row of Codes.
type CodeInfo struct {
	Code    Code
	HTTP    int
	Exit    int
	Retry   Retry
	Meaning string
}

// Codes is the one table of refusals: HTTP status, exit code of the command
// line, whether to send again, and what it means.
var Codes = []CodeInfo{
	{CodeInvalid, 400, 2, RetryNever, "the request is malformed, or a field is missing, of the wrong type or out of range"},
	{CodeUnauthenticated, 401, 1, RetryNever, "no delegation or capability came with the request, or one that is not known; one that is known and may not do it is denied"},
	{CodeDenied, 403, 1, RetryNever, "this principal may not do that"},
	{CodeNotFound, 404, 1, RetryNever, "there is no such slot, binding, lease or action"},
	{CodeConflict, 409, 1, RetryNew, "the state is not the one the request was made for"},
	{CodeHeld, 409, 13, RetrySame, "somebody else has control; the detail names who and until when"},
	{CodeFenced, 409, 12, RetryNew, "this epoch has ended; nothing was dispatched. Wait, or resume the lease"},
	{CodeExpired, 410, 12, RetryNew, "the lease, delegation or capability is over"},
	{CodeQuarantined, 409, 14, RetrySame, "the slot is closed until something unknown about it is settled"},
	{CodeDocumentChanged, 409, 1, RetryNew, "the page is not the one that was last reported to this agent; observe again"},
	{CodeAccountMismatch, 409, 1, RetryNever, "the slot is not signed in as the account that the binding expects"},
	{CodeOutcomeUnknown, 409, 15, RetryNever, "what the action did is not known; look it up, do not send it again"},
	{CodePolicy, 403, 1, RetryNever, "the binding's policy does not allow this"},
	{CodeCapacity, 503, 11, RetrySame, "no more browsers may run now"},
	{CodeBusy, 409, 11, RetrySame, "the slot is changing hands or starting; ask again shortly"},
	{CodeLimit, 413, 1, RetryNever, "a documented bound was exceeded"},
	{CodeDeadline, 504, 16, RetrySame, "the wait ended first; what was asked may still happen if it was admitted"},
	{CodeUnavailable, 503, 10, RetrySame, "a part that is needed cannot be reached now"},
	{CodeEpochRegression, 409, 14, RetryNever, "the daemon knows less than the slot's browser: a restored database; a person must adopt the slot"},
	{CodeVersionSkew, 409, 1, RetryNever, "two parts of SessionDock are of different builds"},
	{CodeInternal, 500, 1, RetryNever, "a fault of SessionDock itself; see its log"},
}

// Info returns the code's row, or that of CodeInternal for a code not in Codes.
func (c Code) Info() CodeInfo {
	for _, i := range Codes {
		if i.Code == c {
			return i
		}
	}
	return CodeInternal.Info()
}

// Error is a refusal. Every refusal of every part is one of these; on the wire
// it is {"error":{"code","message","hint","detail"}}.
type Error struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Hint    string         `json:"hint,omitempty"`
	Detail  map[string]any `json:"detail,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Refuse makes a refusal; the hint says what to do about it.
func Refuse(code Code, message, hint string) *Error {
	return &Error{Code: code, Message: message, Hint: hint}
}

// With returns a copy of e with one more detail.
func (e *Error) With(key string, value any) *Error {
	c := *e
	c.Detail = make(map[string]any, len(e.Detail)+1)
	for k, v := range e.Detail {
		c.Detail[k] = v
	}
	c.Detail[key] = value
	return &c
}
