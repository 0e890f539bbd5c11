package wire

import "sessiondock.dev/sessiondock/daemon/core"

// Codes of the DevTools protocol's errors, as Chromium gives them.
const (
	CDPUnknownMethod  = -32601
	CDPInvalidParams  = -32602
	CDPInvalidRequest = -32600
	CDPServerError    = -32000
	CDPNoSession      = -32001
)

// ErrorOf words a refusal for a DevTools client: the code, the reason and what would
// help.
func ErrorOf(e *core.Error) *CDPError {
	if e == nil {
		return &CDPError{Code: CDPServerError, Message: "no reason was given"}
	}
	code := CDPServerError
	if e.Detail["unknown"] == true {
		code = CDPUnknownMethod
	}
	message := string(e.Code) + ": " + e.Message
	if e.Hint != "" {
		message += " (" + e.Hint + ")"
	}
	return &CDPError{Code: code, Message: message}
}
