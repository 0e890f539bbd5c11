package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"sessiondock.dev/sessiondock/daemon/core"
	"sessiondock.dev/sessiondock/daemon/wire"
)

// kind is how a value is written in JSON.
type kind string

const (
	kindString kind = "string"
	kindInt    kind = "int"
	kindUint   kind = "uint"
	kindNumber kind = "number"
	kindBool   kind = "bool"
	kindArray  kind = "array"
	kindMap    kind = "map"
	kindObject kind = "object"
	kindAny    kind = "any"
)

// shape is the JSON form of one Go type.
type shape struct {
	Kind   kind
	Null   bool     // encoding/json writes null for its zero value
	Enum   []string // the only values, from the field's tag
	Elem   *shape   // of an array or map
	Struct string   // of an object: its name
	Alias  string   // the named Go type of a scalar
	Max    int64    // of a string, UTF-16 code units, if not maxString
	Loose  bool     // validated as any, whatever its type
}

type field struct {
	Name     string
	Shape    *shape
	Optional bool
	Doc      string
}

type object struct {
	Name   string
	Doc    string
	Fields []field
}

// message is a type of wire.Messages.
type message struct {
	T        string
	From, To string
	*object
}

// alias is a named scalar.
type alias struct {
	Name string
	Kind kind
	Doc  string
}

type model struct {
	Messages []message
	Objects  []*object // nested ones, in the order they are met
	Aliases  []alias
	API      []*object // bodies of the HTTP API
	Limits   []limit
}

const (
	maxString = 64 << 10 // of a string that is not in longStrings
	maxArray  = 4096
)

// longStrings are the strings that may be longer than maxString.
var longStrings = map[string]int64{
	"wire.Chunk.Data":     wire.MaxMessage,
	"wire.Act.Value":      wire.MaxBody,
	"wire.Act.Expression": wire.MaxBody,
}

// loose fields have a type for the reader but are not looked into: what a status
// shows may grow without the extension's consent.
var loose = map[string]bool{"wire.UI.Status": true}

// rename keeps a type from hiding a global of JavaScript.
var rename = map[string]string{"core.Error": "Refusal"}

// apiBodies are the types of wire/api.go; buildModel refuses a missing one.
var apiBodies = []any{
	wire.AcquireRequest{}, wire.LeaseReply{}, wire.RenewRequest{}, wire.ResumeRequest{}, wire.ActRequest{},
	wire.SlotRequest{}, wire.BindingRequest{}, wire.DelegateRequest{}, wire.DelegateReply{}, wire.ChangeRequest{},
	wire.ResolveRequest{}, wire.QueueRow{}, wire.AgentReply{}, wire.AskRequest{}, wire.RetainRequest{}, wire.AnswerRequest{}, wire.ConfirmRequest{},
	wire.ProbeRequest{}, wire.ProbeReply{}, wire.BindingInfo{},
	wire.DelegationRow{}, wire.SlotInfo{}, wire.EventRow{}, wire.ErrorBody{},
}

type builder struct {
	src     *source
	m       *model
	objects map[reflect.Type]*object
	names   map[string]reflect.Type
}

func newBuilder(src *source) *builder {
	return &builder{src: src, m: &model{Limits: src.limits}, objects: map[reflect.Type]*object{}, names: map[string]reflect.Type{}}
}

func buildModel(src *source) (*model, error) {
	b := newBuilder(src)
	seen := map[string]bool{}
	for _, row := range wire.Messages {
		if seen[row.T] {
			return nil, fmt.Errorf("message %q is listed twice", row.T)
		}
		seen[row.T] = true
		o, err := b.object(reflect.TypeOf(row.Value))
		if err != nil {
			return nil, err
		}
		b.m.Messages = append(b.m.Messages, message{row.T, row.From, row.To, o})
	}
	// The nested objects are those that are not messages themselves.
	isMessage := map[*object]bool{}
	for _, m := range b.m.Messages {
		isMessage[m.object] = true
	}
	nested := b.m.Objects[:0]
	for _, o := range b.m.Objects {
		if !isMessage[o] {
			nested = append(nested, o)
		}
	}
	b.m.Objects = nested
	return b.m, b.api()
}

// api describes the bodies of the HTTP API apart: the extension never sees them.
func (b *builder) api() error {
	listed := map[string]bool{}
	api := newBuilder(b.src)
	for _, v := range apiBodies {
		listed[reflect.TypeOf(v).Name()] = true
		o, err := api.object(reflect.TypeOf(v))
		if err != nil {
			return err
		}
		b.m.API = append(b.m.API, o)
	}
	for _, name := range b.src.apiTypes {
		if !listed[name] {
			return fmt.Errorf("wire.%s of api.go is not listed in apiBodies", name)
		}
	}
	return nil
}

func (b *builder) name(t reflect.Type) (string, error) {
	name := t.Name()
	if n, ok := rename[t.String()]; ok {
		name = n
	}
	if had, ok := b.names[name]; ok && had != t {
		return "", fmt.Errorf("%v and %v would both be called %s", had, t, name)
	}
	b.names[name] = t
	return name, nil
}

func (b *builder) object(t reflect.Type) (*object, error) {
	if o, ok := b.objects[t]; ok {
		return o, nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is not a struct", t)
	}
	name, err := b.name(t)
	if err != nil {
		return nil, err
	}
	o := &object{Name: name, Doc: b.src.typeDoc[t.String()]}
	b.objects[t] = o
	b.m.Objects = append(b.m.Objects, o)
	o.Fields, err = b.fields(t)
	return o, err
}

func (b *builder) fields(t reflect.Type) ([]field, error) {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		where := t.String() + "." + f.Name
		tag, hasTag := f.Tag.Lookup("json")
		if f.Anonymous && !hasTag {
			flat, err := b.fields(f.Type)
			if err != nil {
				return nil, err
			}
			out = append(out, flat...)
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		if name == "-" {
			continue
		}
		if !f.IsExported() || name == "" {
			return nil, fmt.Errorf("%s has no JSON name", where)
		}
		s, err := b.shape(f.Type, where)
		if err != nil {
			return nil, err
		}
		if enum, ok := f.Tag.Lookup("enum"); ok {
			if s.Kind != kindString {
				return nil, fmt.Errorf("%s is not a string and has an enum", where)
			}
			s.Enum = strings.Split(enum, ",")
		}
		s.Max = longStrings[where]
		s.Loose = loose[where]
		out = append(out, field{name, s, opts == "omitempty", b.src.fieldDoc[where]})
	}
	return out, nil
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

func (b *builder) shape(t reflect.Type, where string) (*shape, error) {
	if t == rawMessage {
		return &shape{Kind: kindAny}, nil
	}
	switch t.Kind() {
	case reflect.String:
		return b.scalar(kindString, t)
	case reflect.Bool:
		return b.scalar(kindBool, t)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return b.scalar(kindInt, t)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return b.scalar(kindUint, t)
	case reflect.Float32, reflect.Float64:
		return b.scalar(kindNumber, t)
	case reflect.Interface:
		return &shape{Kind: kindAny}, nil
	case reflect.Struct:
		o, err := b.object(t)
		if err != nil {
			return nil, err
		}
		return &shape{Kind: kindObject, Struct: o.Name}, nil
	case reflect.Pointer:
		s, err := b.shape(t.Elem(), where)
		if err != nil {
			return nil, err
		}
		s.Null = true
		return s, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil, fmt.Errorf("%s is a []byte: say base64 in a string, or json.RawMessage", where)
		}
		elem, err := b.shape(t.Elem(), where)
		return &shape{Kind: kindArray, Null: true, Elem: elem}, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("%s is a map whose keys are not strings", where)
		}
		elem, err := b.shape(t.Elem(), where)
		return &shape{Kind: kindMap, Null: true, Elem: elem}, err
	}
	return nil, fmt.Errorf("%s has a type that JSON cannot carry: %v", where, t)
}

func (b *builder) scalar(k kind, t reflect.Type) (*shape, error) {
	if t.PkgPath() == "" {
		return &shape{Kind: k}, nil
	}
	_, known := b.names[t.Name()]
	name, err := b.name(t)
	if err != nil {
		return nil, err
	}
	if !known {
		doc := b.src.typeDoc[t.String()]
		if t == reflect.TypeFor[core.Code]() {
			doc = "A code of docs/PROTOCOL.md."
		}
		b.m.Aliases = append(b.m.Aliases, alias{name, k, doc})
	}
	return &shape{Kind: k, Alias: name}, nil
}
