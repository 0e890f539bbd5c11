package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/host/act"
)

var (
	errNotObject  = errors.New("message is not a JSON object")
	errRepeated   = errors.New("message repeats a member")
	errTrailing   = errors.New("message is followed by something")
	scanOptions   = jsontext.AllowInvalidUTF8(true)    // lone surrogates, which JavaScript's strings may hold
	scanDuplicate = jsontext.AllowDuplicateNames(true) // found below, at the level that matters
)

// members calls f for each member of the object in body. The values are parts of
// body: a picture of 20 MB is looked over, not copied.
func members(body []byte, f func(name string, value []byte) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), scanOptions, scanDuplicate)
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return errNotObject
	}
	for d.PeekKind() != '}' {
		tok, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := tok.String()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := f(name, value); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if rest := bytes.TrimLeft(body[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return errTrailing
	}
	return nil
}

// head is all that the relay looks at of a message that passes through.
type head struct {
	t     string
	nonce core.Nonce
}

// readHead reads a message's type and nonce. A member given twice is refused: the
// two ends might disagree on which of them counts.
func readHead(body []byte) (head, error) {
	var h head
	var haveT, haveNonce bool
	err := members(body, func(name string, value []byte) error {
		switch name {
		case "t":
			if haveT {
				return errRepeated
			}
			haveT = true
			return json.Unmarshal(value, &h.t)
		case "nonce":
			if haveNonce {
				return errRepeated
			}
			haveNonce = true
			return json.Unmarshal(value, &h.nonce)
		}
		return nil
	})
	if err == nil && h.t == "" {
		err = errors.New(`message has no type "t"`)
	}
	return h, err
}

// readResult reads a cmd.result. The answer's Result is a part of body.
func readResult(body []byte) (seq int64, a act.Answer, err error) {
	seq = -1
	err = members(body, func(name string, value []byte) error {
		switch name {
		case "seq":
			return json.Unmarshal(value, &seq)
		case "ok":
			return json.Unmarshal(value, &a.OK)
		case "dispatched":
			return json.Unmarshal(value, &a.Dispatched)
		case "observed":
			return json.Unmarshal(value, &a.Observed)
		case "url":
			return json.Unmarshal(value, &a.URL)
		case "error":
			return json.Unmarshal(value, &a.Error)
		case "dialog":
			return json.Unmarshal(value, &a.Dialog)
		case "result":
			a.Result = value
		}
		return nil
	})
	if err == nil && seq < 0 {
		err = fmt.Errorf("cmd.result has no seq")
	}
	return seq, a, err
}
