package policies

import (
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/value"
)

// The names in random worlds: few, so that policies and requests meet.
var (
	categories = []string{policy.CategorySubject, policy.CategoryResource, policy.CategoryAction, policy.CategoryEnvironment}
	attributes = []string{"a", "b", "c"}
	// texts are lexical forms by type. Some are equal without being the same.
	texts = map[value.Type][]string{
		value.String:            {"u", "u", "u", "v", "v", "w", " u", "", "1", "two"},
		value.Integer:           {"0", "1", "2", "+2", "02", "-1", "9223372036854775807", "9223372036854775808"},
		value.Boolean:           {"true", "1", "false", "0"},
		value.Double:            {"1", "1.0", "0", "-0", "NaN", "INF"},
		value.AnyURI:            {"urn:a", "urn:b", "URN:a"},
		value.HexBinary:         {"0a", "0A", "ff"},
		value.Base64Binary:      {"Cg==", "/w=="},
		value.X500Name:          {"cn=Ann,o=Acme", "CN=ann, O=ACME", "o=Acme"},
		value.RFC822Name:        {"ann@Acme.com", "ann@acme.com", "Ann@acme.com"},
		value.Date:              {"2026-03-14", "2026-03-14Z", "2026-03-15+14:00"},
		value.Time:              {"15:09:26", "15:09:26Z", "16:09:26+01:00"},
		value.DateTime:          {"2026-03-14T15:09:26Z", "2026-03-14T16:09:26+01:00", "2026-03-14T15:09:26"},
		value.YearMonthDuration: {"P1Y", "P12M", "P1M"},
		value.DayTimeDuration:   {"P1D", "PT24H", "PT1H"},
		value.IPAddress:         {"10.0.0.1", "10.0.0.2:80"},
		value.DNSName:           {"a.com", "A.com"},
	}
	// equalTypes are the types whose equality XACML defines, the frequent ones first.
	equalTypes = []value.Type{value.String, value.Integer, value.Boolean, value.Double, value.AnyURI, value.HexBinary, value.Base64Binary,
		value.X500Name, value.RFC822Name, value.Date, value.Time, value.DateTime, value.YearMonthDuration, value.DayTimeDuration}
)

// typeOf returns a type; strings and integers are frequent.
func (g *generator) typeOf() value.Type {
	switch g.IntN(10) {
	case 0, 1, 2, 3, 4:
		return value.String
	case 5, 6:
		return value.Integer
	case 7:
		return value.Boolean
	}
	return equalTypes[g.IntN(len(equalTypes))]
}

// typeFor returns a type for an attribute, so that policies and requests often
// agree on it.
func (g *generator) typeFor(id string) value.Type {
	switch {
	case id == "a" && !g.one(12):
		return value.String
	case id == "b" && !g.one(6):
		return []value.Type{value.String, value.Integer}[g.IntN(2)]
	}
	return g.typeOf()
}

// literal returns a value of a type.
func (g *generator) literal(t value.Type) value.Value {
	list := texts[t]
	v, err := value.Parse(t, list[g.IntN(len(list))])
	if err != nil {
		panic(err)
	}
	return v
}

func (g *generator) category() string  { return g.pick(categories...) }
func (g *generator) attribute() string { return g.pick(attributes...) }

// designator returns a designator of a type.
func (g *generator) designator(t value.Type) *policy.Designator {
	d := &policy.Designator{Category: g.category(), ID: g.attribute(), Type: t}
	g.demand(d)
	return d
}

// demand makes a designator strict sometimes, or one of the clock.
func (g *generator) demand(d *policy.Designator) {
	d.MustBePresent = g.one(10) || g.errors && g.one(3)
	if g.one(16) {
		d.Issuer = g.pick("us", "them")
	}
	clock := map[value.Type]string{value.Time: policy.AttributeCurrentTime, value.Date: policy.AttributeCurrentDate, value.DateTime: policy.AttributeCurrentDateTime}
	if id := clock[d.Type]; id != "" && g.one(2) {
		d.Category, d.ID = policy.CategoryEnvironment, id
	}
}

// equality returns a match for equality with an attribute.
func (g *generator) equality(category, id string) policy.Match {
	t := g.typeFor(id)
	d := &policy.Designator{Category: category, ID: id, Type: t}
	g.demand(d)
	return policy.Match{Function: equalOf(t), Literal: g.literal(t), Bag: d}
}

// match returns a match of any kind.
func (g *generator) match() policy.Match {
	if !g.one(4) {
		return g.equality(g.category(), g.attribute())
	}
	d := g.designator(value.String)
	switch g.IntN(4) {
	case 3:
		t := g.typeOf()
		return policy.Match{Function: equalOf(t), Literal: g.literal(t), Bag: g.selection(t)}
	case 0:
		return policy.Match{Function: standard1 + "string-regexp-match", Literal: value.NewString(g.pick("[u-v]", "w|x", "^$")), Bag: d}
	case 1:
		return policy.Match{Function: standard3 + "string-starts-with", Literal: value.NewString(g.pick("", "u", "v")), Bag: d}
	}
	return policy.Match{Function: standard1 + "integer-greater-than", Literal: g.literal(value.Integer), Bag: g.designator(value.Integer)}
}

// equalOf returns the id of the equality of a type.
func equalOf(t value.Type) string { return familyOf(t, "-equal") }

// familyOf returns the id of the function of a type with a name.
func familyOf(t value.Type, name string) string {
	if t == value.YearMonthDuration || t == value.DayTimeDuration {
		return standard3 + t.String() + name
	}
	return standard1 + t.String() + name
}

// variable is a variable of the policy that is being made.
type variable struct {
	id    string
	shape function.Shape
}

var booleanShape = function.Shape{Type: value.Boolean}

// shape returns a shape for a variable or an assignment.
func (g *generator) shape() function.Shape {
	return function.Shape{Type: g.typeOf(), Bag: g.one(3)}
}
