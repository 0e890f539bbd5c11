package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"time"
)

// source is what only the source text says: the sentences and the limits.
type source struct {
	typeDoc  map[string]string // "wire.Hello" -> its comment
	fieldDoc map[string]string // "wire.Hello.Nonce" -> its comment
	apiTypes []string          // the types declared in wire/api.go, in order
	limits   []limit
}

// limit is one constant of wire/limits.go.
type limit struct {
	Name  string
	Value int64 // bytes, a count, or milliseconds
	Time  bool  // it is a duration
	Doc   string
}

func readSource(root string) (*source, error) {
	s := &source{typeDoc: map[string]string{}, fieldDoc: map[string]string{}}
	fset := token.NewFileSet()
	for _, pkg := range []string{"wire", "core"} {
		files, err := filepath.Glob(filepath.Join(root, "daemon", pkg, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			s.readTypes(pkg, f, pkg == "wire" && filepath.Base(name) == "api.go")
			if pkg == "wire" && filepath.Base(name) == "limits.go" {
				if err := s.readLimits(fset, f, filepath.Join(root, "daemon", "core", "limits.go")); err != nil {
					return nil, err
				}
			}
		}
	}
	if len(s.limits) == 0 {
		return nil, fmt.Errorf("daemon/wire/limits.go declares no limits")
	}
	return s, nil
}

func (s *source) readTypes(pkg string, f *ast.File, api bool) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, spec := range g.Specs {
			t := spec.(*ast.TypeSpec)
			name := pkg + "." + t.Name.Name
			doc := t.Doc
			if doc == nil && !g.Lparen.IsValid() {
				doc = g.Doc
			}
			s.typeDoc[name] = sentence(doc, t.Comment)
			st, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			if api {
				s.apiTypes = append(s.apiTypes, t.Name.Name)
			}
			for _, field := range st.Fields.List {
				for _, n := range field.Names {
					s.fieldDoc[name+"."+n.Name] = sentence(field.Doc, field.Comment)
				}
			}
		}
	}
}

// readLimits evaluates the constants as the compiler does, so that none can be
// missed or written here with another value.
func (s *source) readLimits(fset *token.FileSet, f *ast.File, core string) error {
	conf := types.Config{Importer: limitsOnly{fset, core}}
	pkg, err := conf.Check("wire", fset, []*ast.File{f}, nil)
	if err != nil {
		return fmt.Errorf("limits.go must stand on time and the limits of core alone: %w", err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for _, name := range v.Names {
				if name.Name == "Version" || !name.IsExported() {
					continue
				}
				c := pkg.Scope().Lookup(name.Name).(*types.Const)
				n, exact := constant.Int64Val(constant.ToInt(c.Val()))
				if !exact {
					return fmt.Errorf("limit %s is not an integer", name.Name)
				}
				l := limit{Name: name.Name, Value: n, Doc: sentence(v.Doc, v.Comment)}
				if c.Type().String() == "time.Duration" {
					if n%int64(time.Millisecond) != 0 {
						return fmt.Errorf("limit %s is not a whole number of milliseconds", name.Name)
					}
					l.Time, l.Value = true, n/int64(time.Millisecond)
				}
				s.limits = append(s.limits, l)
			}
		}
	}
	return nil
}

// limitsOnly imports a package time that has the units of a duration and nothing else,
// and of package core the file of its limits: all that a file of limits needs, without
// compiling either.
type limitsOnly struct {
	fset *token.FileSet
	core string // the file
}

func (l limitsOnly) Import(path string) (*types.Package, error) {
	if strings.HasSuffix(path, "/daemon/core") {
		f, err := parser.ParseFile(l.fset, l.core, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		return (&types.Config{}).Check(path, l.fset, []*ast.File{f}, nil)
	}
	if path != "time" {
		return nil, fmt.Errorf("it imports %q", path)
	}
	pkg := types.NewPackage("time", "time")
	obj := types.NewTypeName(token.NoPos, pkg, "Duration", nil)
	duration := types.NewNamed(obj, types.Typ[types.Int64], nil)
	pkg.Scope().Insert(obj)
	for name, d := range map[string]time.Duration{
		"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
		"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
	} {
		pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, name, duration, constant.MakeInt64(int64(d))))
	}
	pkg.MarkComplete()
	return pkg, nil
}

// sentence joins the comment above and the one beside a declaration into one line.
func sentence(groups ...*ast.CommentGroup) string {
	var words []string
	for _, g := range groups {
		if g != nil {
			words = append(words, strings.Fields(g.Text())...)
		}
	}
	return strings.Join(words, " ")
}
