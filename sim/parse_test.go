package main

import (
	"testing"

	"github.com/dop251/goja"
)

// TestTheQuickParserReadsWhatTheEngineReads: for every text the two agree, on what it
// says and on whether it says anything.
func TestTheQuickParserReadsWhatTheEngineReads(t *testing.T) {
	quick, own := &script{vm: goja.New()}, goja.New()
	if err := quick.quickParse(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`{}`, `[]`, ` { "a" : [ 1 , -2, 0, true,false ,null , "x" ] , "b":{"c":{}} } `, `""`, `"plain"`, `7`, `-0`, `01`, `1.5`, `1e3`, `-`, `+1`,
		`9007199254740991`, `9007199254740993`, `99999999999999999999`, `"\u00e9\n"`, `"é"`, `"a`, "\"a\tb\"", `{"a":1,"a":2}`, `{"__proto__":{"x":1}}`,
		`{"2":1,"1":2,"a":3}`, `{a:1}`, `{"a":1,}`, `[1,]`, `[,1]`, `[1 2]`, `{"a" 1}`, `nul`, `nullx`, `true false`, ``, ` `, `{"a":`, `[[[[1]]]]`, `]`,
	} {
		read := func(vm *goja.Runtime) string {
			if err := vm.Set("text", text); err != nil {
				t.Fatal(err)
			}
			v, err := vm.RunString(`try { const v = JSON.parse(text); JSON.stringify(v) + Object.is(v, -0) + typeof v } catch (e) { e.name }`)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return v.String()
		}
		if got, want := read(quick.vm), read(own); got != want {
			t.Errorf("%s: %s, the engine says %s", text, got, want)
		}
	}
}
