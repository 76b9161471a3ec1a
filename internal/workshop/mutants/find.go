//go:build unix

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one small change of one file.
type Mutant struct {
	// ID names the mutant by its function and by the text that changes. It has no
	// line number, so it stays the same while other code moves.
	ID string
	// File is the name of the changed file, without its folder.
	File string
	// Line is the line of the change.
	Line int
	// start and end are the offsets of the bytes that are replaced by with.
	start, end int
	with       string
	// form is how a [build] contains both the mutant and the original.
	form form
	// from and to are the offsets of the changed expression or statement. For a
	// dropped field, they are those of its value, and key is the offset of its name.
	from, to, key int
}

// form is a kind of code that can contain both a mutant and the original.
type form int

const (
	formNone form = iota // a build of its own
	formNegation
	formExpression
	formError // an expression that becomes nil
	formField
	formDrop   // a statement that is dropped
	formAssign // an assignment that becomes one to _
	formBranch // a statement that is replaced
)

// apply returns the changed text of the file.
func (m *Mutant) apply(text []byte) string {
	return string(text[:m.start]) + m.with + string(text[m.end:])
}

// find returns the mutants of some files of a folder, in the order of the files.
// It fails if a file cannot be read or parsed, and skips generated files.
func find(dir string, files []string) ([]Mutant, error) {
	var all []Mutant
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		found, err := findIn(name, text)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	number(all)
	return all, nil
}

// number makes the identifiers unique: the second mutant with the same text in a
// function gets "#2" at its end.
func number(all []Mutant) {
	seen := map[string]int{}
	for i := range all {
		id := all[i].ID
		if seen[id]++; seen[id] > 1 {
			all[i].ID = fmt.Sprintf("%s #%d", id, seen[id])
		}
	}
}

// findIn returns the mutants of one file.
func findIn(name string, text []byte) ([]Mutant, error) {
	if bytes.HasPrefix(text, []byte("// Code generated ")) {
		return nil, nil
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &finder{file: fset.File(file.Pos()), name: name, text: text, whole: map[ast.Expr]bool{}, listed: map[ast.Stmt]bool{}}
	for _, d := range file.Decls {
		f.declaration(d)
	}
	slices.SortStableFunc(f.out, func(a, b Mutant) int { return a.start - b.start })
	return f.out, nil
}

// finder collects the mutants of one file.
type finder struct {
	file *token.File
	name string
	text []byte
	// within is the function or the package's constant or variable whose code is
	// visited.
	within string
	// whole contains the expressions that are negated as a whole.
	whole map[ast.Expr]bool
	// listed contains the statements of blocks, which an if statement can enclose.
	listed map[ast.Stmt]bool
	out    []Mutant
}

func (f *finder) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Body != nil {
			f.within = functionName(d)
			f.function(d.Type, d.Body)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				f.within = v.Names[0].Name
				for _, value := range v.Values {
					ast.Inspect(value, f.visit(nil))
				}
			}
		}
	}
}

// functionName returns the name of a function, or "Type.Method".
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

func (f *finder) function(t *ast.FuncType, body *ast.BlockStmt) {
	ast.Inspect(body, f.visit(t))
}

// visit returns the visitor of the code of a function of type t, or of a value
// outside of functions if t is nil.
func (f *finder) visit(t *ast.FuncType) func(ast.Node) bool {
	return func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.function(n.Type, n.Body)
			return false
		case *ast.ReturnStmt:
			f.returned(n, t)
		case *ast.CallExpr:
			return !isMake(n)
		case ast.Stmt:
			f.statement(n)
		case ast.Expr:
			f.expression(n)
		}
		return true
	}
}

// isMake reports whether a call is make with a size that only saves memory: a
// capacity, or the size of a map or channel. Such sizes are not changed.
func isMake(n *ast.CallExpr) bool {
	name, ok := n.Fun.(*ast.Ident)
	if !ok || name.Name != "make" || len(n.Args) < 2 {
		return false
	}
	_, slice := n.Args[0].(*ast.ArrayType)
	return !slice || len(n.Args) == 3
}

func (f *finder) statement(n ast.Stmt) {
	switch n := n.(type) {
	case *ast.BlockStmt:
		f.list(n.List)
	case *ast.IfStmt:
		f.negate(n.Cond)
		f.dropExit(n.Body.List)
		if last, ok := n.Else.(*ast.BlockStmt); ok {
			f.dropExit(last.List)
		}
	case *ast.SwitchStmt:
		f.cases(n)
	case *ast.CaseClause:
		f.list(n.Body)
		f.dropExit(n.Body)
	case *ast.CommClause:
		f.list(n.Body)
		f.dropExit(n.Body)
	case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.IncDecStmt:
		f.drop(n)
	case *ast.AssignStmt:
		f.assigned(n)
	case *ast.BranchStmt:
		f.branch(n)
	}
}

func (f *finder) list(all []ast.Stmt) {
	for _, n := range all {
		f.listed[n] = true
	}
}

// cases negates the conditions of a switch without a value.
func (f *finder) cases(n *ast.SwitchStmt) {
	if n.Tag != nil {
		return
	}
	for _, c := range n.Body.List {
		for _, condition := range c.(*ast.CaseClause).List {
			f.negate(condition)
		}
	}
}

// negate negates a condition.
func (f *finder) negate(x ast.Expr) {
	f.whole[x] = true
	f.change(x, "!("+f.source(x)+")", f.source(x)+" → !("+f.source(x)+")", formNegation)
}

// dropExit drops the return, continue or break at the end of a block, so that
// the code after it runs.
func (f *finder) dropExit(list []ast.Stmt) {
	if len(list) == 0 {
		return
	}
	last := list[len(list)-1]
	switch n := last.(type) {
	case *ast.ReturnStmt:
	case *ast.BranchStmt:
		if n.Tok == token.FALLTHROUGH {
			return
		}
	default:
		return
	}
	f.change(last, "", "drop "+f.source(last), formDrop)
}

// assigned drops an assignment to existing variables. The value is still
// computed.
func (f *finder) assigned(n *ast.AssignStmt) {
	switch {
	case n.Tok == token.DEFINE:
	case n.Tok != token.ASSIGN:
		f.drop(n)
	case !allBlank(n.Lhs):
		blank := strings.TrimSuffix(strings.Repeat("_, ", len(n.Lhs)), ", ")
		f.change(n, blank+" = "+f.source(n.Rhs[0], n.Rhs[len(n.Rhs)-1]), "drop "+f.source(n), f.enclosed(n, formAssign))
	}
}

// enclosed returns the form if an if statement can enclose n.
func (f *finder) enclosed(n ast.Stmt, as form) form {
	if f.listed[n] {
		return as
	}
	return formNone
}

func allBlank(list []ast.Expr) bool {
	return !slices.ContainsFunc(list, func(x ast.Expr) bool {
		name, ok := x.(*ast.Ident)
		return !ok || name.Name != "_"
	})
}

// branch swaps continue and break.
func (f *finder) branch(n *ast.BranchStmt) {
	if n.Label != nil {
		return
	}
	switch n.Tok {
	case token.BREAK:
		f.change(n, "continue", "break → continue", f.enclosed(n, formBranch))
	case token.CONTINUE:
		f.change(n, "break", "continue → break", f.enclosed(n, formBranch))
	}
}

// returned replaces a returned error by nil.
func (f *finder) returned(n *ast.ReturnStmt, t *ast.FuncType) {
	if t == nil || t.Results == nil || len(n.Results) == 0 {
		return
	}
	results := t.Results.List
	kind, ok := results[len(results)-1].Type.(*ast.Ident)
	last := n.Results[len(n.Results)-1]
	value, named := last.(*ast.Ident)
	if !ok || kind.Name != "error" || named && value.Name == "nil" || len(n.Results) != t.Results.NumFields() {
		return
	}
	f.change(last, "nil", f.source(n)+" → nil error", formError)
}

func (f *finder) expression(n ast.Expr) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT && !f.whole[n] {
			f.replace(n, f.source(n.X))
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			f.replace(n, "("+n.Value+" + 1)")
		}
	case *ast.Ident:
		if other, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok {
			f.replace(n, other)
		}
	case *ast.CompositeLit:
		f.fields(n)
	}
}

// swapped are the operators that replace each other.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.SHL: token.SHR, token.SHR: token.SHL, token.AND: token.OR, token.OR: token.AND,
}

// binary swaps the operator. A whole condition of == or != is not swapped: that
// is the same as negating it.
func (f *finder) binary(n *ast.BinaryExpr) {
	other, ok := swapped[n.Op]
	if !ok || f.whole[n] && (n.Op == token.EQL || n.Op == token.NEQ) || n.Op == token.ADD && isText(n) {
		return
	}
	f.replace(n, f.source(n.X)+" "+other.String()+" "+f.source(n.Y))
}

// isText reports whether an expression is a string literal, or a sum that
// contains one: + then joins texts.
func isText(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING
	case *ast.BinaryExpr:
		return x.Op == token.ADD && (isText(x.X) || isText(x.Y))
	}
	return false
}

// fields drops each field of a struct literal in turn.
func (f *finder) fields(n *ast.CompositeLit) {
	for i, e := range n.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return
		}
		if _, named := pair.Key.(*ast.Ident); !named {
			return
		}
		from, to := e.Pos(), e.End()
		switch {
		case i+1 < len(n.Elts):
			to = n.Elts[i+1].Pos()
		case i > 0:
			from = n.Elts[i-1].End()
		default:
			from, to = n.Lbrace+1, n.Rbrace
		}
		f.add(from, to, "", "drop field "+f.source(e), e, formField)
		m := &f.out[len(f.out)-1]
		m.key, m.from, m.to = f.file.Offset(pair.Key.Pos()), f.file.Offset(pair.Value.Pos()), f.file.Offset(pair.Value.End())
	}
}

// drop removes a statement.
func (f *finder) drop(n ast.Stmt) {
	f.change(n, "", "drop "+f.source(n), f.enclosed(n, formDrop))
}

// replace replaces an expression.
func (f *finder) replace(n ast.Expr, with string) {
	f.change(n, with, f.source(n)+" → "+with, formExpression)
}

func (f *finder) change(n ast.Node, with, change string, as form) {
	f.add(n.Pos(), n.End(), with, change, n, as)
}

// changeMax bounds the characters of a change in an identifier.
const changeMax = 160

func (f *finder) add(from, to token.Pos, with, change string, n ast.Node, as form) {
	change = strings.Join(strings.Fields(change), " ")
	if r := []rune(change); len(r) > changeMax {
		change = string(r[:changeMax-1]) + "…"
	}
	f.out = append(f.out, Mutant{
		ID: f.within + ": " + change, File: f.name, Line: f.file.Line(n.Pos()),
		start: f.file.Offset(from), end: f.file.Offset(to), with: with,
		form: as, from: f.file.Offset(n.Pos()), to: f.file.Offset(n.End()),
	})
}

// source returns the text from the first to the last node.
func (f *finder) source(nodes ...ast.Node) string {
	return string(f.text[f.file.Offset(nodes[0].Pos()):f.file.Offset(nodes[len(nodes)-1].End())])
}
