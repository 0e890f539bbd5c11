package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sessiondock.dev/sessiondock/daemon/wire"
)

const generated = "Written by daemon/wire/gen from package wire. Do not edit."

// validateJS is the part of wire.js that does not depend on the messages.
//
//go:embed validate.js
var validateJS string

func renderJS(m *model) ([]byte, error) {
	var w bytes.Buffer
	fmt.Fprintf(&w, "// %s\n\n", generated)
	fmt.Fprintf(&w, "export const VERSION = %d;\n\n", wire.Version)
	fmt.Fprintf(&w, "/** Sizes in bytes, counts, and times in milliseconds. */\nexport const LIMITS = Object.freeze({\n")
	for _, l := range m.Limits {
		fmt.Fprintf(&w, "  %s: %d,\n", l.Name, l.Value)
	}
	fmt.Fprintf(&w, "});\n\nconst MAX_STRING = %d;\nconst MAX_ARRAY = %d;\n\n", maxString, maxArray)

	fmt.Fprintf(&w, "const STRUCTS = Object.freeze({\n")
	for _, o := range m.Objects {
		if err := renderFields(&w, o.Name, o.Fields); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(&w, "});\n\n/** The fields of every message, by its type. */\nexport const MESSAGES = Object.freeze({\n")
	for _, msg := range m.Messages {
		if err := renderFields(&w, fmt.Sprintf("'%s'", msg.T), msg.Fields); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(&w, "});\n\n/** DevTools methods for an agent: '' or why one is refused whatever the binding allows. What is not in it is refused. */\nexport const METHODS = Object.freeze({\n")
	for _, name := range slices.Sorted(maps.Keys(wire.Methods)) {
		fmt.Fprintf(&w, "  '%s': %q,\n", name, wire.Methods[name].Never)
	}
	fmt.Fprintf(&w, "});\n\n/** Those that a setting of the binding opens. */\nexport const NEEDS = Object.freeze({\n")
	for _, name := range slices.Sorted(maps.Keys(wire.Methods)) {
		if needs := wire.Methods[name].Needs; needs != "" {
			fmt.Fprintf(&w, "  '%s': %q,\n", name, needs)
		}
	}
	fmt.Fprintf(&w, "});\n\n%s", validateJS)
	return w.Bytes(), nil
}

func renderFields(w *bytes.Buffer, key string, fields []field) error {
	fmt.Fprintf(w, "  %s: {\n", key)
	for _, f := range fields {
		s, err := shapeJS(f.Shape, f.Optional)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "    %s: %s,\n", f.Name, s)
	}
	fmt.Fprintf(w, "  },\n")
	return nil
}

func shapeJS(s *shape, optional bool) (string, error) {
	k := s.Kind
	if s.Loose {
		k = kindAny
	}
	parts := []string{fmt.Sprintf("kind: '%s'", k)}
	if optional {
		parts = append(parts, "optional: true")
	}
	if s.Null {
		parts = append(parts, "nullable: true")
	}
	if s.Max != 0 {
		parts = append(parts, fmt.Sprintf("max: %d", s.Max))
	}
	if s.Enum != nil {
		enum, err := json.Marshal(s.Enum)
		if err != nil {
			return "", err
		}
		parts = append(parts, "enum: "+strings.NewReplacer(`"`, `'`, `,`, `, `).Replace(string(enum)))
	}
	switch k {
	case kindObject:
		parts = append(parts, fmt.Sprintf("struct: '%s'", s.Struct))
	case kindArray, kindMap:
		elem, err := shapeJS(s.Elem, false)
		if err != nil {
			return "", err
		}
		parts = append(parts, "element: "+elem)
	}
	return "{ " + strings.Join(parts, ", ") + " }", nil
}
