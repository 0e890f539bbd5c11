package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sessiondock.dev/sessiondock/daemon/wire"
)

func TestOutputsAreCurrent(t *testing.T) {
	if err := run(true); err != nil {
		t.Fatal(err)
	}
}

func TestStaleOutputIsNamed(t *testing.T) {
	root := t.TempDir()
	outputs := []output{{"same", []byte("1")}, {"other", []byte("2")}, {"gone", []byte("3")}}
	for name, text := range map[string]string{"same": "1", "other": "x"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := stale(root, outputs)
	if err == nil || !strings.Contains(err.Error(), "other is stale") || !strings.Contains(err.Error(), "gone is missing") {
		t.Fatalf("got %v", err)
	}
	if strings.Contains(err.Error(), "same") {
		t.Fatalf("a current output is called stale: %v", err)
	}
}

// TestLimitsAreTheCompilers compares what was read from the source with what the
// compiler made of it.
func TestLimitsAreTheCompilers(t *testing.T) {
	m := testModel(t)
	got := map[string]int64{}
	for _, l := range m.Limits {
		got[l.Name] = l.Value
		if l.Doc == "" {
			t.Errorf("limit %s has no reason", l.Name)
		}
	}
	for name, want := range map[string]int64{
		"MaxToExtension": wire.MaxToExtension, "MaxMessage": wire.MaxMessage, "ChunkBytes": wire.ChunkBytes,
		"GrantTTL": wire.GrantTTL.Milliseconds(), "DrainDeadline": wire.DrainDeadline.Milliseconds(),
		"MaxActionDeadline": wire.MaxActionDeadline.Milliseconds(),
	} {
		if got[name] != want {
			t.Errorf("%s = %d, want %d", name, got[name], want)
		}
	}
	if _, ok := got["Version"]; ok {
		t.Error("the version is no limit")
	}
}

func TestWhatCannotBeSaidIsRefused(t *testing.T) {
	type unnamed struct{ Field string }
	for name, v := range map[string]any{
		"no JSON name": unnamed{},
		"keys are not strings": struct {
			M map[int]string `json:"m"`
		}{},
		"[]byte": struct {
			B []byte `json:"b"`
		}{},
		"cannot carry": struct {
			C chan int `json:"c"`
		}{},
		"has an enum": struct {
			N int `json:"n" enum:"1,2"`
		}{},
	} {
		_, err := newBuilder(&source{}).fields(reflect.TypeOf(v))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
}

// vector is one message and what the extension's validator must say of it.
type vector struct {
	Name string          `json:"name"`
	Msg  json.RawMessage `json:"msg"`
	Want string          `json:"want"` // "" means valid
}

// TestValidatorAgreesWithGo runs the generated validator over messages as Go
// writes them, over each with one field spoilt, and over cases that only
// JavaScript can get wrong.
func TestValidatorAgreesWithGo(t *testing.T) {
	vectors := append(goVectors(t), handVectors...)
	got := validateInNode(t, vectors)
	for i, v := range vectors {
		if got[i] != v.Want {
			t.Errorf("%s: got %q, want %q\n%s", v.Name, got[i], v.Want, clip(v.Msg))
		}
	}
}

var handVectors = []vector{
	{"not an object", raw(`[]`), "message: not an object"},
	{"null", raw(`null`), "message: not an object"},
	{"no type", raw(`{}`), "t: not a string"},
	{"unknown type", raw(`{"t":"x"}`), `t: unknown type "x"`},
	{"a name of Object.prototype", raw(`{"t":"constructor"}`), `t: unknown type "constructor"`},
	{"a field of Object.prototype", raw(`{"t":"poke","__proto__":{"nonce":"n"}}`), "nonce: missing"},
	{"unknown members", raw(`{"t":"poke","nonce":"n","later":{"x":[1]}}`), ""},
	{"fraction", raw(`{"t":"granted","nonce":"n","epoch":1.5}`), "epoch: not an integer"},
	{"negative", raw(`{"t":"granted","nonce":"n","epoch":-1}`), "epoch: negative"},
	{"2^53-1", raw(`{"t":"granted","nonce":"n","epoch":9007199254740991}`), ""},
	{"2^53", raw(`{"t":"granted","nonce":"n","epoch":9007199254740992}`), "epoch: above 2^53-1"},
	{"infinite", raw(`{"t":"granted","nonce":"n","epoch":1e999}`), "epoch: not an integer"},
	{"null where none may be", raw(`{"t":"granted","nonce":"n","epoch":null}`), "epoch: not a number"},
	{"null slice", raw(`{"t":"forget","nonce":"n","actions":null}`), ""},
	{"element", raw(`{"t":"forget","nonce":"n","actions":["a",2]}`), "actions[1]: not a string"},
	{"nested element", raw(`{"t":"stop.page","nonce":"n","epoch":1,"tabs":[{"tab":1},{"tab":"2"}]}`), "tabs[1].tab: not a number"},
	{"not in the enum", raw(`{"t":"document.ended","nonce":"n","document":"d","how":"vanished"}`), "how: not one of crashed, replaced, closed"},
	{"status is not looked into", raw(`{"t":"ui","nonce":"n","status":{"epoch":"any"}}`), ""},
	{"long string", raw(`{"t":"poke","nonce":"` + strings.Repeat("n", maxString+1) + `"}`), "nonce: longer than 65536"},
	{"longest string", raw(`{"t":"poke","nonce":"` + strings.Repeat("n", maxString) + `"}`), ""},
	{"large chunk", raw(`{"t":"chunk","id":1,"index":0,"total":1,"data":"` + strings.Repeat("A", 1<<20) + `"}`), ""},
	{"long array", raw(`{"t":"forget","nonce":"n","actions":["a"` + strings.Repeat(`,"a"`, maxArray) + `]}`), "actions: more than 4096 elements"},
	{"map of anything", raw(`{"t":"host.refused","error":{"code":"held","message":"m","detail":{"by":["x",1,null]}}}`), ""},
	{"map that is an array", raw(`{"t":"host.refused","error":{"code":"held","message":"m","detail":[]}}`), "error.detail: not an object"},
}

// goVectors makes of every message its zero value, a full one, and one for each
// field without it and with it of a wrong type.
func goVectors(t *testing.T) []vector {
	t.Helper()
	m := testModel(t)
	var out []vector
	for i, row := range wire.Messages {
		v := reflect.New(reflect.TypeOf(row.Value)).Elem()
		fill(v, false)
		out = append(out, vector{row.T + " empty", marshal(t, v), ""})
		fill(v, true)
		full := marshal(t, v)
		out = append(out, vector{row.T + " full", full, ""})
		for _, f := range m.Messages[i].Fields {
			if !f.Optional {
				out = append(out, vector{row.T + " without " + f.Name, spoil(t, full, f.Name, nil), f.Name + ": missing"})
			}
			if wrong, want := wrongValue(f); want != "" {
				out = append(out, vector{row.T + " wrong " + f.Name, spoil(t, full, f.Name, wrong), want})
			}
		}
	}
	return out
}

func wrongValue(f field) (json.RawMessage, string) {
	if f.Shape.Loose {
		return nil, ""
	}
	switch f.Shape.Kind {
	case kindString:
		return raw("7"), f.Name + ": not a string"
	case kindInt, kindUint, kindNumber:
		return raw(`"7"`), f.Name + ": not a number"
	case kindBool:
		return raw("0"), f.Name + ": not a boolean"
	case kindArray:
		return raw("{}"), f.Name + ": not an array"
	case kindObject, kindMap:
		return raw("[]"), f.Name + ": not an object"
	}
	return nil, ""
}

// spoil sets or, with nil, removes one member of an object.
func spoil(t *testing.T, msg json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	t.Helper()
	var o map[string]json.RawMessage
	if err := json.Unmarshal(msg, &o); err != nil {
		t.Fatal(err)
	}
	if value == nil {
		delete(o, name)
	} else {
		o[name] = value
	}
	out, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fill gives strings with an enum its first value, since a zero one is not valid;
// with everything, it makes every optional part present too.
func fill(v reflect.Value, everything bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if enum, ok := f.Tag.Lookup("enum"); ok {
				first, _, _ := strings.Cut(enum, ",")
				v.Field(i).SetString(first)
			} else {
				fill(v.Field(i), everything)
			}
		}
	case reflect.Pointer:
		if everything {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), everything)
		}
	case reflect.Slice:
		if everything && v.Type() == rawMessage {
			v.SetBytes([]byte(`{"any":[1]}`))
		} else if everything {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0), everything)
			fill(v.Index(1), everything)
		}
	case reflect.Map:
		if everything {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("key"), reflect.Zero(v.Type().Elem()))
		}
	case reflect.String:
		if everything {
			v.SetString("text")
		}
	case reflect.Bool:
		v.SetBool(everything)
	case reflect.Int, reflect.Int64:
		if everything {
			v.SetInt(-3)
		}
	case reflect.Uint64:
		if everything {
			v.SetUint(3)
		}
	}
}

const nodeScript = `
import { validate } from %q;
let text = '';
for await (const piece of process.stdin.setEncoding('utf8')) text += piece;
process.stdout.write(JSON.stringify(JSON.parse(text).map((v) => validate(v.msg) ?? '')));
`

func validateInNode(t *testing.T, vectors []vector) []string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT RUN: there is no node to run the generated validator")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(vectors)
	if err != nil {
		t.Fatal(err)
	}
	// A copy with the suffix that node takes for a module, wherever package.json is.
	js, err := os.ReadFile(filepath.Join(root, "extension/gen/wire.js"))
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(t.TempDir(), "wire.mjs")
	if err := os.WriteFile(module, js, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", fmt.Sprintf(nodeScript, module))
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, stderr.Bytes())
	}
	var got []string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(vectors) {
		t.Fatalf("%d answers to %d messages", len(got), len(vectors))
	}
	return got
}

func testModel(t *testing.T) *model {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	src, err := readSource(root)
	if err != nil {
		t.Fatal(err)
	}
	m, err := buildModel(src)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func marshal(t *testing.T, v reflect.Value) json.RawMessage {
	t.Helper()
	body, err := wire.Marshal(v.Interface())
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func clip(b []byte) string {
	if len(b) > 300 {
		return string(b[:300]) + "…"
	}
	return string(b)
}
