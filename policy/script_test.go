package policy_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/language"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// TestScripts plays testdata/*.script. A script is a list of blocks: a command
// with its text, a line ----, what it prints, and an empty line.
//
//	policies     the root and, after it, the library, in XML. Each element begins
//	             at the first column. Names are short: see [shorten]. $subject.a:integer
//	             is a designator, with ! at its end if it must be present; 'x':integer
//	             is a value; {subject.a = x & resource.b = y} is a target.
//	bounds       sets bounds of the following commands: steps=10 depth=3
//	ask          decides a request: category.id[@issuer][:type]=value,value ...
//	             "|" begins a new category, also if its name comes twice; "#x" gives
//	             the category before it the id x; "!" includes the attribute before
//	             it in the result; ids asks for policies, combined for one
//	             result, an xpathExpression is PATH or CATEGORY|PATH, refs=x+y,z makes references, now=TIME sets the clock,
//	             content.CATEGORY=XML sets content, trace prints the trace.
func TestScripts(t *testing.T) {
	t.Parallel()
	golden.Each(t, "testdata/*.script", 1, func(t *testing.T, file string) {
		playScript(t, file)
	})
}

func playScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := &script{t: t}
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		in, want, ok := strings.Cut(block, "\n----")
		if !ok {
			out.WriteString(block + "\n\n") // a comment
			continue
		}
		var lines []string
		for line := range strings.Lines(in) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		got := s.play(strings.Join(lines, ""))
		if want = strings.TrimPrefix(want, "\n"); got != want && !golden.Rewrite() {
			t.Errorf("%s: %s\n----\n%s\nexpected:\n%s", file, in, got, want)
		}
		out.WriteString(in + "\n----\n" + got + "\n\n")
	}
	if golden.Rewrite() {
		if err := os.WriteFile(file, []byte(strings.TrimSpace(out.String())+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// script is the state of a script.
type script struct {
	t      *testing.T
	plan   *policy.Plan
	bounds policy.Bounds
}

func (s *script) play(text string) string {
	command, rest, _ := strings.Cut(text, "\n")
	words := strings.Fields(command)
	switch words[0] {
	case "policies":
		return s.load(rest)
	case "bounds":
		return s.setBounds(words[1:])
	case "ask":
		return s.ask(words[1:])
	}
	s.t.Fatalf("unknown command %q", words[0])
	return ""
}

func (s *script) setBounds(words []string) string {
	s.bounds = policy.Bounds{}
	for _, word := range words {
		name, number, _ := strings.Cut(word, "=")
		field := map[string]*int{"steps": &s.bounds.Steps, "depth": &s.bounds.PolicyDepth, "expressions": &s.bounds.ExpressionDepth,
			"decisions": &s.bounds.Decisions, "duties": &s.bounds.Duties}[name]
		fmt.Sscan(number, field)
	}
	return "ok"
}

var elements = regexp.MustCompile(`(?m)^<Policy`)

func (s *script) load(text string) string {
	starts := elements.FindAllStringIndex(text, -1)
	var all []policy.Element
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		source := "root"
		if i > 0 {
			source = fmt.Sprint("library ", i)
		}
		e, err := language.ParseXML(context.Background(), []byte(shorten(text[at[0]:end])), source)
		if err != nil {
			return lengthen(err.Error())
		}
		all = append(all, e)
	}
	plan, err := policy.Compile(context.Background(), all[0], all[1:], policy.CompileOptions{Bounds: s.bounds})
	if err != nil {
		return lengthen(err.Error())
	}
	s.plan = plan
	return "ok"
}

// shortNames are the names of scripts and what they are short for.
var shortNames = []string{
	"fn:", "urn:oasis:names:tc:xacml:1.0:function:",
	"fn3:", "urn:oasis:names:tc:xacml:3.0:function:",
	"rules:", "urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:",
	"rules1:", "urn:oasis:names:tc:xacml:1.0:rule-combining-algorithm:",
	"sets:", "urn:oasis:names:tc:xacml:3.0:policy-combining-algorithm:",
	"sets1:", "urn:oasis:names:tc:xacml:1.0:policy-combining-algorithm:",
	"xs:", "http://www.w3.org/2001/XMLSchema#",
	"xpathExpression", value.XPathExpression.URI(),
	"category:subject", policy.CategorySubject,
	"category:resource", policy.CategoryResource,
	"category:action", policy.CategoryAction,
	"category:environment", policy.CategoryEnvironment,
	"env:", "urn:oasis:names:tc:xacml:1.0:environment:",
}

var (
	targetForm     = regexp.MustCompile(`\{([^}]*)\}`)
	matchForm      = regexp.MustCompile(`(\S+) = (\S+)`)
	designatorForm = regexp.MustCompile(`\$(\w+)\.([\w-]+)(?::(\w+))?(?:@(\w+))?(!)?`)
	valueForm      = regexp.MustCompile(`'([^']*)'(?::(\w+))?`)
)

// expand replaces targets, designators and values by their elements.
func expand(text string) string {
	text = targetForm.ReplaceAllStringFunc(text, func(t string) string {
		return "<Target>" + strings.ReplaceAll(matchForm.ReplaceAllString(t[1:len(t)-1],
			`<AnyOf><AllOf><Match MatchId="fn:string-equal">'$2'$$$1</Match></AllOf></AnyOf>`), "&", "") + "</Target>"
	})
	text = designatorForm.ReplaceAllStringFunc(text, func(d string) string {
		part := designatorForm.FindStringSubmatch(d)
		id, kind, issuer := part[2], typeURI(part[3]), ""
		if strings.HasPrefix(id, "current-") {
			id, kind = "env:"+id, typeURI(id[len("current-"):])
		}
		if part[4] != "" {
			issuer = fmt.Sprintf(` Issuer="%s"`, part[4])
		}
		return fmt.Sprintf(`<AttributeDesignator Category="category:%s" AttributeId="%s" DataType="%s"%s MustBePresent="%t"/>`,
			part[1], id, kind, issuer, part[5] != "")
	})
	return valueForm.ReplaceAllStringFunc(text, func(v string) string {
		part := valueForm.FindStringSubmatch(v)
		return fmt.Sprintf(`<AttributeValue DataType="%s">%s</AttributeValue>`, typeURI(part[2]), part[1])
	})
}

// typeURI returns the identifier of a type with a short name; "" is string.
func typeURI(name string) string {
	if name == "" {
		return value.String.URI()
	}
	t, _ := value.ParseShortType(name)
	return t.URI()
}

// shorten replaces short names after a quote by what they are short for, and
// gives the element its namespace.
func shorten(text string) string {
	text = expand(text)
	for i := 0; i < len(shortNames); i += 2 {
		text = strings.ReplaceAll(text, `"`+shortNames[i], `"`+shortNames[i+1])
	}
	at := strings.IndexAny(text, " >")
	return text[:at] + ` xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17"` + text[at:]
}

func lengthen(text string) string {
	for i := 0; i < len(shortNames); i += 2 {
		text = strings.ReplaceAll(text, shortNames[i+1], shortNames[i])
	}
	return text
}

func (s *script) ask(words []string) string {
	r := &policy.Request{}
	o := policy.Options{Bounds: s.bounds}
	traced := false
	fresh := true
	for _, word := range words {
		name, text, _ := strings.Cut(word, "=")
		switch {
		case word == "ids":
			r.ReturnPolicyIDs = true
		case word == "combined":
			r.Combined = true
		case word == "trace":
			traced, o.Trace = true, &policy.Trace{}
		case word == "|":
			fresh = true
		case word == "!":
			last := r.Categories[len(r.Categories)-1].Attributes
			last[len(last)-1].IncludeInResult = true
		case word[0] == '#':
			r.Categories[len(r.Categories)-1].ID = word[1:]
		case name == "refs":
			for ref := range strings.SplitSeq(text, ",") {
				r.References = append(r.References, strings.Split(ref, "+"))
			}
		case name == "now":
			now, err := time.Parse(time.RFC3339, text)
			if err != nil {
				s.t.Fatal(err)
			}
			o.Now = func() time.Time { return now }
		case strings.HasPrefix(name, "content."):
			root, err := content.Parse([]byte(text))
			if err != nil {
				s.t.Fatal(err)
			}
			category := strings.TrimPrefix(name, "content.")
			r.Categories = append(r.Categories, policy.Category{Name: lengthenCategory(category), Content: root})
			fresh = false
		default:
			s.addAttribute(r, name, text, fresh)
			fresh = false
		}
	}
	out := printResults(s.plan.Decide(s.t.Context(), r, o))
	if traced {
		for _, step := range o.Trace.Decisions {
			out += "\n" + strings.TrimSuffix(printStep(step, ""), "\n")
		}
	}
	return lengthen(out)
}

func lengthenCategory(name string) string {
	return map[string]string{"subject": policy.CategorySubject, "resource": policy.CategoryResource,
		"action": policy.CategoryAction, "environment": policy.CategoryEnvironment}[name]
}

// addAttribute adds category.id[@issuer][:type]=value,value to the last category
// with the name, or to a new one if that is not the last one.
func (s *script) addAttribute(r *policy.Request, name, text string, fresh bool) {
	category, id, _ := strings.Cut(name, ".")
	category = lengthenCategory(category)
	id, typeName, typed := strings.Cut(id, ":")
	if strings.HasPrefix(id, "current-") {
		typed, typeName = true, strings.TrimPrefix(id, "current-")
	}
	id, issuer, _ := strings.Cut(id, "@")
	if i := strings.Index(typeName, "@"); i >= 0 {
		typeName, issuer = typeName[:i], typeName[i+1:]
	}
	if strings.HasPrefix(id, "current-") {
		id = "urn:oasis:names:tc:xacml:1.0:environment:" + id
	}
	kind := value.String
	if typed {
		kind, _ = value.ParseShortType(typeName)
	}
	a := policy.Attribute{ID: id, Issuer: issuer}
	for one := range strings.SplitSeq(text, ",") {
		if kind == value.XPathExpression {
			x := value.XPath{Category: category, Path: one}
			if other, path, ok := strings.Cut(one, "|"); ok {
				x = value.XPath{Category: lengthenCategory(other), Path: path}
			}
			a.Values = append(a.Values, value.NewXPath(x))
			continue
		}
		v, err := value.Parse(kind, one)
		if err != nil {
			s.t.Fatal(err)
		}
		a.Values = append(a.Values, v)
	}
	if n := len(r.Categories); fresh || n == 0 || r.Categories[n-1].Name != category {
		r.Categories = append(r.Categories, policy.Category{Name: category})
	}
	last := &r.Categories[len(r.Categories)-1]
	last.Attributes = append(last.Attributes, a)
}

func printResults(results []policy.Result) string {
	var lines []string
	for _, r := range results {
		lines = append(lines, printDecision(r.Decision)+printStatus(r.Status))
		for _, d := range r.Obligations {
			lines = append(lines, "  obligation "+printDuty(d))
		}
		for _, d := range r.Advice {
			lines = append(lines, "  advice "+printDuty(d))
		}
		for _, c := range r.Categories {
			for _, a := range c.Attributes {
				for _, v := range a.Values {
					lines = append(lines, fmt.Sprintf("  %s %s=%s", c.Name, a.ID, v.Text()))
				}
			}
		}
		for _, p := range r.Policies {
			kind := "policy"
			if p.Set {
				kind = "set"
			}
			lines = append(lines, fmt.Sprintf("  %s %s %s", kind, p.ID, p.Version))
		}
	}
	return strings.Join(lines, "\n")
}

func printDecision(d policy.Decision) string {
	return [...]string{"NotApplicable", "Permit", "Deny", "I", "I{P}", "I{D}", "I{DP}"}[d]
}

func printStatus(err *status.Error) string {
	if err == nil {
		return ""
	}
	code := string(err.Code[strings.LastIndex(string(err.Code), ":")+1:])
	out := " " + code + ": " + err.Message
	for _, m := range err.Missing {
		out += fmt.Sprintf(" [missing %s %s %s %s]", m.Category, m.ID, m.Type, m.Issuer)
	}
	if err.Bound != "" {
		out += " [bound " + err.Bound + "]"
	}
	return out
}

func printDuty(d policy.Duty) string {
	var arguments []string
	for _, a := range d.Arguments {
		arguments = append(arguments, strings.TrimSpace(fmt.Sprintf("%s=%s %s %s", a.ID, a.Value.Text(), a.Category, a.Issuer)))
	}
	return fmt.Sprintf("%s(%s)", d.ID, strings.Join(arguments, ", "))
}

func printStep(s *policy.TraceStep, indent string) string {
	out := fmt.Sprintf("%s%s %s at %s: target %s, %s", indent, s.Kind, s.ID, s.Position, s.Target, printDecision(s.Decision))
	if s.Skipped > 0 {
		out += fmt.Sprintf(", %d skipped", s.Skipped)
	}
	if s.Decided >= 0 {
		out += ", decided by " + s.Children[s.Decided].ID
	}
	out += printStatus(s.Status) + "\n"
	for _, child := range s.Children {
		out += printStep(child, indent+"  ")
	}
	return out
}

// TestTime checks that a decision ends with its context, and names the bound.
func TestTime(t *testing.T) {
	t.Parallel()
	plan, err := policy.Compile(t.Context(), &policy.Policy{Header: policy.Header{ID: "p", Version: "1", Algorithm: policy.AlgorithmRulesDenyOverrides},
		Rules: []policy.Rule{{ID: "r", Effect: policy.Permit}}}, nil, policy.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := plan.Decide(ctx, &policy.Request{}, policy.Options{})[0]
	if got.Decision != policy.IndeterminateDP || got.Status == nil || got.Status.Bound != policy.BoundTime {
		t.Errorf("%+v", got)
	}
}
