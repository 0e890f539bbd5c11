package core

import (
	"fmt"
	"slices"
	"strings"
)

// Settings are what a binding can allow an agent's DevTools commands beyond the pages
// themselves. Each is a person's word, given with the binding.
var Settings = []struct{ Name, Help string }{
	{"cookies", "to read, set and delete the cookies of the binding's origins, also those that no page's script can read"},
	{"storage", "to look into caches that the binding's origins keep, and to delete what they have stored"},
	{"interception", "to hold back, change or answer the requests of its pages to the binding's origins"},
}

// SettingNames are the words of Settings.
func SettingNames() []string {
	names := make([]string, len(Settings))
	for i, s := range Settings {
		names[i] = s.Name
	}
	return names
}

func checkAllow(allow []string) *Error {
	names := SettingNames()
	for i, a := range allow {
		if !slices.Contains(names, a) {
			return Refuse(CodeInvalid, fmt.Sprintf("a binding cannot allow %q", clip(a, 40)), "it can allow "+strings.Join(names, ", ")).With("field", "allow")
		}
		if slices.Contains(allow[:i], a) {
			return Refuse(CodeInvalid, a+" is allowed twice", "name each once").With("field", "allow")
		}
	}
	return nil
}

// NotAllowed refuses what a binding's setting would allow.
func NotAllowed(what, setting string) *Error {
	return Refuse(CodePolicy, what+" is not passed on: this binding does not allow "+setting,
		"a person allows it: make the binding anew with --allow "+setting).With("setting", setting)
}
