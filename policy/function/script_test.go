package function

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// TestScripts plays the scripts of testdata/*.script. Each line is
//
//	function argument... => result
//
// A function is the end of its id, in all versions that have it. An argument is
// a text, or {a b} for a bag, of the types of the signature; ! is an argument
// that is an error. A higher-order function has its first argument in
// parentheses. A result is a text, a bag, or the end of a status code, with the
// bound in parentheses; ", rejected" follows if literal arguments are rejected.
// "type error" means that the arguments do not fit. "zone +02:00" sets the zone
// of the lines that follow.
func TestScripts(t *testing.T) {
	t.Parallel()
	golden.Each(t, "testdata/*.script", 1, func(t *testing.T, file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, file, playScript(t, string(text)))
	})
}

func playScript(t *testing.T, script string) string {
	t.Helper()
	root, err := content.Parse([]byte(`<r xmlns:n="urn:n"><a i="1">x</a><a i="2"><n:b/></a></r>`))
	if err != nil {
		t.Fatal(err)
	}
	env := &Env{Content: func(category string) (*content.Node, error) {
		if category == "none" {
			return nil, nil
		}
		return root, nil
	}}
	lines := strings.Split(script, "\n")
	for i, line := range lines {
		command, _, isCall := strings.Cut(line, " =>")
		if zone, ok := strings.CutPrefix(line, "zone "); ok {
			at, err := time.Parse("-07:00", zone)
			if err != nil {
				t.Fatal(err)
			}
			env.Zone = at.Location()
		}
		if isCall {
			lines[i] = command + " => " + playLine(t, env, command)
		}
	}
	return strings.Join(lines, "\n")
}

// playLine calls a function in all its versions and returns their result.
func playLine(t *testing.T, env *Env, command string) string {
	t.Helper()
	tokens := split(t, command)
	name, inner, isHigher := strings.Cut(strings.TrimSuffix(tokens[0].text, ")"), "(")
	result := ""
	for _, f := range versions(t, name) {
		var got string
		if isHigher {
			got = callHigher(t, env, f, versions(t, inner)[0], tokens[1:])
		} else {
			got = callFunction(t, env, f, tokens[1:])
		}
		if result != "" && got != result {
			t.Errorf("%s: %s is %s: expected %s", command, f.ID, got, result)
		}
		result = got
	}
	return result
}

// versions returns the functions whose id ends with the name.
func versions(t *testing.T, name string) []*Function {
	t.Helper()
	var found []*Function
	for f := range Standard().All() {
		if strings.HasSuffix(f.ID, ":"+name) {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		t.Fatalf("unknown function %q", name)
	}
	return found
}

// word is an argument of a script: a text or a bag.
type word struct {
	text   string
	bag    []string
	isBag  bool
	quoted bool
}

func split(t *testing.T, line string) []word {
	t.Helper()
	var words []word
	var bag *word
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		w := word{}
		switch {
		case line[0] == '{':
			words = append(words, word{isBag: true})
			bag, line = &words[len(words)-1], line[1:]
			continue
		case line[0] == '}':
			bag, line = nil, line[1:]
			continue
		case line[0] == '"' || line[0] == '`':
			prefix, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			w.text, _ = strconv.Unquote(prefix)
			w.quoted, line = true, line[len(prefix):]
		default:
			end := strings.IndexAny(line+" ", " }")
			if bag == nil {
				end = strings.IndexByte(line+" ", ' ')
			}
			w.text, line = line[:end], line[end:]
		}
		if bag != nil {
			bag.bag = append(bag.bag, w.text)
		} else {
			words = append(words, w)
		}
	}
	return words
}

// operand returns an argument of a type, and whether it is the error !.
func operand(t *testing.T, typ value.Type, w word) (Operand, error) {
	t.Helper()
	if w.isBag {
		values := []value.Value{}
		for _, text := range w.bag {
			values = append(values, parsed(t, typ, text))
		}
		return Bag(typ, values), nil
	}
	if w.text == "!" && !w.quoted {
		return Operand{}, &status.Error{Code: status.MissingAttribute, Message: "the argument is an error"}
	}
	return Single(parsed(t, typ, w.text)), nil
}

func parsed(t *testing.T, typ value.Type, text string) value.Value {
	t.Helper()
	if typ == value.XPathExpression {
		category, path, _ := strings.Cut(text, "|")
		return value.NewXPath(value.XPath{Category: category, Path: path, Namespaces: map[string]string{"n": "urn:n"}})
	}
	v, err := value.Parse(typ, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// script is the arguments of a lazy function.
type script struct {
	operands []Operand
	errs     []error
}

func (s script) Len() int                        { return len(s.operands) }
func (s script) Argument(i int) (Operand, error) { return s.operands[i], s.errs[i] }

func callFunction(t *testing.T, env *Env, f *Function, words []word) string {
	t.Helper()
	shapes := make([]Shape, len(words))
	for i, w := range words {
		if i < len(f.Signature.Params) || f.Signature.Repeat > 0 {
			shapes[i] = Shape{Type: f.Signature.Param(i).Type, Bag: w.isBag}
		}
	}
	if f.Signature.Check(shapes) != nil {
		return "type error"
	}
	args := script{}
	for i, w := range words {
		o, err := operand(t, shapes[i].Type, w)
		args.operands, args.errs = append(args.operands, o), append(args.errs, err)
	}
	if f.Lazy != nil {
		o, err := f.Lazy(args)
		if f.CheckLiterals != nil && args.errs[0] == nil && f.CheckLiterals(literals(args.operands)) != nil {
			return show(o, err) + ", rejected"
		}
		return show(o, err)
	}
	return show(f.Call(env, args.operands)) + specialized(t, env, f, args.operands, show(f.Call(env, args.operands)))
}

// specialized calls the form of the function for literal arguments, in both
// forms, and compares the results.
func specialized(t *testing.T, env *Env, f *Function, args []Operand, want string) string {
	t.Helper()
	call, test, err := f.Specialize(literals(args))
	if err != nil {
		return ", rejected"
	}
	if got := show(call(env, args)); got != want {
		t.Errorf("%s with literals is %s: expected %s", f.ID, got, want)
	}
	if test != nil {
		ok, err := test(env, args[0].Value, args[1].Value)
		if got := show(Single(value.NewBoolean(ok)), err); got != want {
			t.Errorf("the test of %s with literals is %s: expected %s", f.ID, got, want)
		}
	}
	return ""
}

func literals(args []Operand) []*value.Value {
	all := make([]*value.Value, len(args))
	for i, arg := range args {
		if !arg.Shape.Bag {
			all[i] = &arg.Value
		}
	}
	return all
}

func callHigher(t *testing.T, env *Env, f, inner *Function, words []word) string {
	t.Helper()
	var shapes []Shape
	var args []Operand
	for i, w := range words {
		typ := value.String
		if inner.Bind == nil && (i < len(inner.Signature.Params) || inner.Signature.Repeat > 0) {
			typ = inner.Signature.Param(i).Type
		}
		o, err := operand(t, typ, w)
		if err != nil {
			t.Fatal(err)
		}
		args, shapes = append(args, o), append(shapes, o.Shape)
	}
	bound, err := f.Bind(inner, shapes, make([]*value.Value, len(args)))
	if err != nil {
		return "type error"
	}
	got, callErr := bound.Call(env, args)
	if callErr == nil && got.Shape != bound.Result {
		t.Errorf("%s: the result is a %s: expected a %s", f.ID, got.Shape, bound.Result)
	}
	if prepared, err := f.Bind(inner, shapes, literals(args)); err == nil {
		if again := show(prepared.Call(env, args)); again != show(got, callErr) {
			t.Errorf("%s with literals is %s: expected %s", f.ID, again, show(got, callErr))
		}
	}
	return show(got, callErr)
}

// show returns a result as scripts write it.
func show(o Operand, err error) string {
	var e *status.Error
	switch {
	case errors.As(err, &e):
		code := string(e.Code[strings.LastIndexByte(string(e.Code), ':')+1:])
		if e.Bound != "" {
			code += " (" + e.Bound + ")"
		}
		return code
	case err != nil:
		return fmt.Sprintf("%T: %v", err, err)
	case !o.Shape.Bag:
		return showText(o.Value)
	}
	var texts []string
	for _, v := range o.Values {
		texts = append(texts, showText(v))
	}
	return "{" + strings.Join(texts, " ") + "}"
}

func showText(v value.Value) string {
	if text := v.Text(); text != "" && !strings.ContainsAny(text, " \"`{}\n\t") {
		return text
	}
	return strconv.Quote(v.Text())
}
