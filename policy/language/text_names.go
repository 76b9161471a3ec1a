package language

import (
	"strings"
	"sync"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/value"
)

// attribute is a declared attribute of the text form. A name in an expression, or
// at the left of an assignment, refers to it.
type attribute struct {
	category string     // "" if the attribute is only for assignments
	id       string     // AttributeId
	typ      value.Type // 0 if the attribute is only for assignments
	issuer   string     // "" if there is none
}

// names are the declared names of a text, by kind. Each kind has names of its own.
type names struct {
	attributes  map[string]attribute
	categories  map[string]string
	functions   map[string]string
	algorithms  [2]map[string]string // for policies, for rules
	obligations map[string]string
	advice      map[string]string
}

// operator is an infix operator of the text form for the operands of one type.
type operator struct {
	text string
	typ  value.Type
}

// operatorSuffixes are the ends of the names of the functions of infix operators,
// after the name of the type.
var operatorSuffixes = [...]struct{ text, suffix string }{
	{"==", "-equal"}, {"<", "-less-than"}, {"<=", "-less-than-or-equal"}, {">", "-greater-than"}, {">=", "-greater-than-or-equal"},
	{"+", "-add"}, {"-", "-subtract"}, {"*", "-multiply"}, {"/", "-divide"},
}

// prelude has the names that every text has without declaring them.
type prelude struct {
	names
	operators map[string]operator // by the id of the function
	ids       map[operator]string // the reverse
	and, or   string              // ids of the functions of && and ||
	not       string
}

// standardNames makes the prelude on first use.
var standardNames = sync.OnceValue(func() *prelude {
	p := &prelude{names: newNames(), operators: map[string]operator{}, ids: map[operator]string{}}
	for f := range function.Standard().All() {
		prefer(p.functions, camel(lastPart(f.ID)), f.ID)
	}
	for i, rules := range [2]bool{false, true} {
		for _, id := range policy.AlgorithmIDs(rules) {
			prefer(p.algorithms[i], camel(lastPart(id)), id)
		}
	}
	for name, id := range map[string]string{
		"subjectCat": policy.CategorySubject, "recipientSubjectCat": policy.CategoryRecipientSubject,
		"intermediarySubjectCat": policy.CategoryIntermediarySubject, "codebaseCat": policy.CategoryCodebase,
		"requestingMachineCat": policy.CategoryRequestingMachine, "resourceCat": policy.CategoryResource,
		"actionCat": policy.CategoryAction, "environmentCat": policy.CategoryEnvironment,
	} {
		p.categories[name] = id
	}
	p.attributes["subjectId"] = attribute{policy.CategorySubject, policy.AttributeSubjectID, value.String, ""}
	p.attributes["resourceId"] = attribute{policy.CategoryResource, policy.AttributeResourceID, value.String, ""}
	p.attributes["actionId"] = attribute{policy.CategoryAction, policy.AttributeActionID, value.String, ""}
	p.attributes["currentTime"] = attribute{policy.CategoryEnvironment, policy.AttributeCurrentTime, value.Time, ""}
	p.attributes["currentDate"] = attribute{policy.CategoryEnvironment, policy.AttributeCurrentDate, value.Date, ""}
	p.attributes["currentDateTime"] = attribute{policy.CategoryEnvironment, policy.AttributeCurrentDateTime, value.DateTime, ""}
	for _, t := range value.Types() {
		for _, o := range operatorSuffixes {
			if id, ok := p.functions[camel(t.String()+o.suffix)]; ok {
				op := operator{o.text, t}
				p.operators[id], p.ids[op] = op, id
			}
		}
	}
	p.and, p.or, p.not = p.functions["and"], p.functions["or"], p.functions["not"]
	return p
})

func newNames() names {
	return names{attributes: map[string]attribute{}, categories: map[string]string{}, functions: map[string]string{},
		algorithms: [2]map[string]string{{}, {}}, obligations: map[string]string{}, advice: map[string]string{}}
}

// prefer gives a name to an id, or keeps the id of a newer version of XACML.
func prefer(all map[string]string, name, id string) {
	if old, taken := all[name]; !taken || old < id {
		all[name] = id
	}
}

// lastPart returns what follows the last colon, slash or number sign.
func lastPart(id string) string { return id[strings.LastIndexAny(id, ":/#")+1:] }

// camel joins the words of an identifier: "string-less-than" becomes
// "stringLessThan". Characters that a name cannot have separate words.
func camel(id string) string {
	var b strings.Builder
	up := false
	for _, c := range []byte(id) {
		switch {
		case !isNameByte(c):
			up = b.Len() > 0
			continue
		case b.Len() == 0 && c >= '0' && c <= '9':
			b.WriteByte('_')
		case up && c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		}
		up = false
		b.WriteByte(c)
	}
	return b.String()
}

func isNameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// keywords are the words that are no names.
const keywords = " namespace import attribute category function rulecombinator policycombinator obligation advice policyset policy policyref policysetref " +
	"rule target clause apply condition permit deny on let and or true false id type issuer version earliest latest description mustbepresent "

// isName reports whether a text is a name: letters, digits and underscores, in
// parts with dots between them.
func isName(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || part[0] >= '0' && part[0] <= '9' {
			return false
		}
		for i := range len(part) {
			if !isNameByte(part[i]) {
				return false
			}
		}
	}
	return !strings.Contains(keywords, " "+text+" ")
}

// shapes finds the types of expressions, as far as they are known without the
// functions of an embedder.
type shapes struct {
	variables map[string]function.Shape
}

// of returns the type of an expression; the zero Shape if it is not known.
func (s *shapes) of(e policy.Expression) function.Shape {
	switch e := e.(type) {
	case *policy.Literal:
		return function.Shape{Type: e.Value.Type()}
	case *policy.Designator:
		return function.Shape{Type: e.Type, Bag: true}
	case *policy.VariableReference:
		return s.variables[e.ID]
	case *policy.Apply:
		if f, ok := function.Standard().Find(e.Function); ok {
			return f.Signature.Result
		}
	}
	return function.Shape{}
}

// operand returns the type of an expression that is a single value; 0 if it is
// not, or not known to be.
func (s *shapes) operand(e policy.Expression) value.Type {
	if shape := s.of(e); !shape.Bag {
		return shape.Type
	}
	return 0
}
