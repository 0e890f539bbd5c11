package main

import (
	"bytes"
	"fmt"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

func renderTypes(m *model) []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "// %s\n\n", generated)
	fmt.Fprintf(&w, "export declare const VERSION: %d;\n\n", wire.Version)
	fmt.Fprintf(&w, "export declare const LIMITS: {\n")
	for _, l := range m.Limits {
		jsdoc(&w, "  ", l.Doc+unit(l))
		fmt.Fprintf(&w, "  readonly %s: %d;\n", l.Name, l.Value)
	}
	fmt.Fprintf(&w, "};\n\n")
	w.WriteString(`/** One row of MESSAGES: how a field is written. */
export interface Field {
  readonly kind: 'string' | 'int' | 'uint' | 'number' | 'bool' | 'array' | 'map' | 'object' | 'any';
  readonly optional?: true;
  readonly nullable?: true;
  readonly max?: number;
  readonly enum?: readonly string[];
  readonly struct?: string;
  readonly element?: Field;
}

/** DevTools methods for an agent: '' or why one is refused whatever the binding allows. What is not in it is refused. */
export declare const METHODS: { readonly [method: string]: string };

/** Those that a setting of the binding opens. */
export declare const NEEDS: { readonly [method: string]: string };

export declare const MESSAGES: { readonly [t in Message['t']]: { readonly [name: string]: Field } };

/** Returns null, or what is wrong with the first wrong field. */
export declare function validate(msg: unknown): string | null;

`)
	for _, a := range m.Aliases {
		jsdoc(&w, "", a.Doc)
		fmt.Fprintf(&w, "export type %s = %s;\n", a.Name, aliasTS(a))
	}
	for _, o := range m.Objects {
		w.WriteString("\n")
		jsdoc(&w, "", o.Doc)
		fmt.Fprintf(&w, "export interface %s {\n", o.Name)
		fieldsTS(&w, o.Fields)
		w.WriteString("}\n")
	}
	for _, msg := range m.Messages {
		w.WriteString("\n")
		jsdoc(&w, "", msg.Doc)
		fmt.Fprintf(&w, "export interface %s {\n  t: '%s';\n", msg.Name, msg.T)
		fieldsTS(&w, msg.Fields)
		w.WriteString("}\n")
	}
	w.WriteString("\nexport type Message =\n")
	for i, msg := range m.Messages {
		end := "\n"
		if i == len(m.Messages)-1 {
			end = ";\n"
		}
		fmt.Fprintf(&w, "  | %s%s", msg.Name, end)
	}
	return w.Bytes()
}

// unit says what a limit counts, where its comment may not.
func unit(l limit) string {
	if l.Time {
		return " (milliseconds)"
	}
	return ""
}

func aliasTS(a alias) string {
	if a.Name == "Code" {
		codes := make([]string, len(core.Codes))
		for i, c := range core.Codes {
			codes[i] = "'" + string(c.Code) + "'"
		}
		return strings.Join(codes, " | ")
	}
	return scalarTS(a.Kind)
}

func scalarTS(k kind) string {
	switch k {
	case kindString:
		return "string"
	case kindBool:
		return "boolean"
	case kindInt, kindUint, kindNumber:
		return "number"
	}
	return "unknown"
}

func fieldsTS(w *bytes.Buffer, fields []field) {
	for _, f := range fields {
		jsdoc(w, "  ", f.Doc)
		q := ""
		if f.Optional {
			q = "?"
		}
		fmt.Fprintf(w, "  %s%s: %s;\n", f.Name, q, shapeTS(f.Shape))
	}
}

func shapeTS(s *shape) string {
	var t string
	switch {
	case s.Enum != nil:
		t = "'" + strings.Join(s.Enum, "' | '") + "'"
	case s.Alias != "":
		t = s.Alias
	case s.Kind == kindObject:
		t = s.Struct
	case s.Kind == kindArray:
		t = shapeTS(s.Elem) + "[]"
		if s.Elem.Null || s.Elem.Enum != nil {
			t = "(" + shapeTS(s.Elem) + ")[]"
		}
	case s.Kind == kindMap:
		t = "{ [key: string]: " + shapeTS(s.Elem) + " }"
	default:
		t = scalarTS(s.Kind)
	}
	if s.Null {
		t += " | null"
	}
	return t
}

func jsdoc(w *bytes.Buffer, indent, text string) {
	if text == "" {
		return
	}
	text = strings.ReplaceAll(text, "*/", "* /")
	line := indent + "/** " + text + " */"
	if len(line) <= 100 {
		fmt.Fprintln(w, line)
		return
	}
	fmt.Fprintf(w, "%s/**\n", indent)
	line = indent + " *"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 90 {
			fmt.Fprintln(w, line)
			line = indent + " *"
		}
		line += " " + word
	}
	fmt.Fprintf(w, "%s\n%s */\n", line, indent)
}
