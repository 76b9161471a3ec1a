package oracle

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Script is a world with expected answers, in a form that people can read. Each
// line is one thing:
//
//	options depth=3 now=2026-01-01T00:00:00Z MissingContextFails seed=7
//	namespace acp
//	condition c(x int, s string): x < 5 && s == "a"
//	type doc
//	attribute open bool
//	relation viewer [user, user:* with c, group#member]: or(direct, but(editor, from(parent, banned)))
//	relation owner: and(attribute(open), rule(c, x=size, s=$name))
//	tuple doc:1#viewer@user:1 with c {"x":3}
//	value doc:1 open true
//	context {"s":"a"}
//	contextual tuple doc:1#viewer@user:2
//	contextual value doc:1 open false
//	ask user:1 viewer doc:1 = true
//
// A line that begins with '#' is a comment.
type Script struct {
	// Seed selects the random choices of laws, such as histories and page
	// sizes.
	Seed uint64
	// World is the world.
	World World
	// Asks are the questions with their expected answers.
	Asks []Ask
}

// Ask is a question with its expected answer.
type Ask struct {
	Question Question      // what is asked
	Want     expr.Tristate // the expected answer
}

// ErrScript is returned, wrapped, for every error in a script's text.
var ErrScript = errors.New("invalid script")

// String returns the text that [ParseScript] reads.
func (s Script) String() string {
	var b strings.Builder
	w := s.World
	fmt.Fprintf(&b, "options depth=%d now=%s", w.Depth, w.Now.Time().Format(time.RFC3339Nano))
	for name, on := range options(&w.Model.Options) {
		if *on {
			b.WriteString(" " + name)
		}
	}
	if s.Seed != 0 {
		fmt.Fprintf(&b, " seed=%d", s.Seed)
	}
	b.WriteString("\n")
	writeModel(&b, &w.Model)
	for _, t := range w.Stored {
		fmt.Fprintf(&b, "tuple %s\n", t)
	}
	for _, a := range w.Attributes {
		fmt.Fprintf(&b, "value %s %s %s\n", a.Object, a.Name, a.Value)
	}
	if len(w.Context) > 0 {
		text, err := rel.CanonicalValue(w.Context)
		if err != nil {
			text = "{}" // a context is decoded JSON, so this does not happen
		}
		fmt.Fprintf(&b, "context %s\n", text)
	}
	for _, t := range w.Contextual {
		fmt.Fprintf(&b, "contextual tuple %s\n", t)
	}
	for _, a := range w.ContextualAttributes {
		fmt.Fprintf(&b, "contextual value %s %s %s\n", a.Object, a.Name, a.Value)
	}
	for _, a := range s.Asks {
		fmt.Fprintf(&b, "ask %s = %s\n", a.Question, a.Want)
	}
	return b.String()
}

// options returns the names and fields of the schema options, in order.
func options(o *schema.Options) func(yield func(string, *bool) bool) {
	return func(yield func(string, *bool) bool) {
		_ = yield("StarIsOrdinary", &o.StarIsOrdinary) &&
			yield("UnsetAttributeIsZero", &o.UnsetAttributeIsZero) &&
			yield("MissingContextFails", &o.MissingContextFails)
	}
}

func writeModel(b *strings.Builder, m *schema.Model) {
	if m.Namespace != "" {
		fmt.Fprintf(b, "namespace %s\n", m.Namespace)
	}
	for _, c := range m.Conditions {
		var params []string
		for _, p := range c.Params {
			params = append(params, p.Name+" "+p.Type.String())
		}
		fmt.Fprintf(b, "condition %s(%s): %s\n", c.Name, strings.Join(params, ", "), c.Source)
	}
	for _, t := range m.Types {
		fmt.Fprintf(b, "type %s\n", t.Name)
		for _, a := range t.Attributes {
			fmt.Fprintf(b, "attribute %s %s\n", a.Name, a.Type)
		}
		for _, r := range t.Relations {
			fmt.Fprintf(b, "relation %s", r.Name)
			for i, st := range r.Subjects {
				sep := ", "
				if i == 0 {
					sep = " ["
				}
				b.WriteString(sep + restrictionText(st))
			}
			if len(r.Subjects) > 0 {
				b.WriteString("]")
			}
			fmt.Fprintf(b, ": %s\n", rewriteText(r.Rewrite))
		}
	}
}

func restrictionText(st schema.SubjectType) string {
	s := st.Type
	if st.Wildcard {
		s += ":*"
	}
	if st.Relation != "" {
		s += "#" + st.Relation
	}
	if st.Condition != "" {
		s += " with " + st.Condition
	}
	return s
}

func rewriteText(r schema.Rewrite) string {
	var parts []string
	switch r.Op {
	case schema.OpDirect:
		return "direct"
	case schema.OpComputed:
		return r.Relation
	case schema.OpAttribute:
		return "attribute(" + r.Attribute + ")"
	case schema.OpArrow:
		parts = append(parts, r.Relation)
	case schema.OpRule:
		parts = append(parts, r.Rule.Name)
		for _, a := range r.Rule.Args {
			value := a.Attribute
			if value == "" {
				value = "$" + a.Context
			}
			parts = append(parts, a.Param+"="+value)
		}
	}
	for _, c := range r.Children {
		parts = append(parts, rewriteText(c))
	}
	return operatorNames[r.Op] + "(" + strings.Join(parts, ", ") + ")"
}

// operatorNames are the names of the operators that have operands.
var operatorNames = [...]string{
	schema.OpArrow: "from", schema.OpUnion: "or", schema.OpIntersection: "and", schema.OpExclusion: "but",
	schema.OpAttribute: "attribute", schema.OpRule: "rule",
}

// ParseScript reads a script. An error wraps [ErrScript] and names the line.
func ParseScript(text string) (Script, error) {
	s := Script{World: World{Depth: 25}}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := s.parseLine(line); err != nil {
			return Script{}, fmt.Errorf("%w: line %d: %v", ErrScript, i+1, err)
		}
	}
	return s, nil
}

func (s *Script) parseLine(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	w := &s.World
	contextual := word == "contextual"
	if contextual {
		word, rest, _ = strings.Cut(rest, " ")
	}
	switch word {
	case "tuple":
		t, err := rel.Parse(rest)
		if contextual {
			w.Contextual = append(w.Contextual, t)
		} else {
			w.Stored = append(w.Stored, t)
		}
		return err
	case "value":
		a, err := parseValue(rest)
		if contextual {
			w.ContextualAttributes = append(w.ContextualAttributes, a)
		} else {
			w.Attributes = append(w.Attributes, a)
		}
		return err
	case "context":
		return json.Unmarshal([]byte(rest), &w.Context)
	case "ask":
		return s.parseAsk(rest)
	case "options":
		return s.parseOptions(rest)
	case "namespace":
		w.Model.Namespace = rest
		return nil
	}
	return parseModelLine(&w.Model, word, rest)
}

func parseValue(rest string) (rel.Attribute, error) {
	f := strings.SplitN(rest, " ", 3)
	if len(f) != 3 {
		return rel.Attribute{}, fmt.Errorf("invalid value line %q: expected \"object name value\"", rest)
	}
	x, err := rel.ParseObject(f[0])
	if err != nil {
		return rel.Attribute{}, err
	}
	value, err := rel.Canonical([]byte(f[2]))
	return rel.Attribute{Object: x, Name: f[1], Value: value}, err
}

func (s *Script) parseAsk(rest string) error {
	f := strings.Fields(rest)
	if len(f) != 5 || f[3] != "=" {
		return fmt.Errorf("invalid ask line %q: expected \"subject relation object = decision\"", rest)
	}
	u, err := rel.ParseSubject(f[0])
	if err != nil {
		return err
	}
	x, err := rel.ParseObject(f[2])
	for _, want := range []expr.Tristate{expr.False, expr.Unknown, expr.True} {
		if f[4] == want.String() {
			s.Asks = append(s.Asks, Ask{Question{Object: x, Relation: f[1], Subject: u}, want})
			return err
		}
	}
	return fmt.Errorf("invalid decision %q: expected true, false or unknown", f[4])
}

func (s *Script) parseOptions(rest string) error {
	w := &s.World
	for _, f := range strings.Fields(rest) {
		name, value, _ := strings.Cut(f, "=")
		known := false
		for option, on := range options(&w.Model.Options) {
			if name == option {
				*on, known = true, true
			}
		}
		var err error
		switch name {
		case "depth":
			w.Depth, err = strconv.Atoi(value)
			if w.Depth < 1 || w.Depth > 1000 {
				return fmt.Errorf("invalid depth %q: expected 1 to 1000", value)
			}
		case "seed":
			s.Seed, err = strconv.ParseUint(value, 10, 64)
		case "now":
			var at time.Time
			at, err = time.Parse(time.RFC3339Nano, value)
			w.Now = rel.TimeOf(at)
		default:
			if !known {
				err = fmt.Errorf("unknown option %q", name)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
