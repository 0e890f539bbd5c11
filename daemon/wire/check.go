package wire

import (
	"fmt"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
)

// CheckAct says whether an action request is well formed and returns its verb's row.
func CheckAct(a Act) (VerbInfo, *core.Error) {
	v, ok := Verb(a.Verb)
	if !ok {
		names := make([]string, len(Verbs))
		for i, v := range Verbs {
			names[i] = v.Verb
		}
		if a.Verb == "" {
			return v, core.Refuse(core.CodeInvalid, "verb is missing", "one of "+strings.Join(names, " "))
		}
		return v, core.Refuse(core.CodeInvalid, fmt.Sprintf("verb %q is not known", clip(a.Verb)), "one of "+strings.Join(names, " "))
	}
	targets := 0
	for _, t := range []string{a.Selector, a.Ref, a.Text, a.Role} {
		if t != "" {
			targets++
		}
		if len(t) > 4096 {
			return v, core.Refuse(core.CodeLimit, "a target is longer than 4096 bytes", "name the element more shortly")
		}
	}
	switch {
	case targets > 1:
		return v, core.Refuse(core.CodeInvalid, "more than one of selector, ref, text and role is given", "name the element in one way")
	case v.Target == "need" && targets == 0:
		return v, core.Refuse(core.CodeInvalid, v.Verb+" needs a target", "give selector, ref, text, or role with name")
	case v.Target == "" && targets > 0:
		return v, core.Refuse(core.CodeInvalid, v.Verb+" takes no target", "leave it out")
	}
	given := map[string]bool{
		"url": a.URL != "", "value": a.Value != nil, "key": a.Key != "", "expression": a.Expression != "",
		"files": len(a.Files) > 0, "accept": a.Accept != nil, "method": a.Method != "",
	}
	for _, need := range strings.Fields(v.Needs) {
		if !given[need] {
			return v, core.Refuse(core.CodeInvalid, fmt.Sprintf("%s needs %s", v.Verb, need), v.Help).With("field", need)
		}
	}
	if a.Verb == "drag" && a.ToSelector == "" && a.ToRef == "" {
		return v, core.Refuse(core.CodeInvalid, "drag needs to_selector or to_ref", v.Help)
	}
	if err := among("state", a.State, "visible", "hidden", "load"); err != nil {
		return v, err
	}
	if err := among("op", a.Op, "list", "new", "close", "select"); err != nil {
		return v, err
	}
	if len(a.Files) > 100 {
		return v, core.Refuse(core.CodeLimit, "more than 100 files", "upload fewer at a time")
	}
	return v, nil
}

func among(field, value string, allowed ...string) *core.Error {
	if value == "" {
		return nil
	}
	for _, a := range allowed {
		if a == value {
			return nil
		}
	}
	return core.Refuse(core.CodeInvalid, fmt.Sprintf("%s %q is not known", field, clip(value)), "one of "+strings.Join(allowed, " ")).With("field", field)
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
