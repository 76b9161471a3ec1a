package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// invalid is what is wrong with a request's names or tuples, before a call
// chooses its code for it: the calls of the service differ in that.
type invalid struct {
	what what
	text string
}

type what uint8

const (
	malformed    what = iota // a field's form
	noType                   // a type that the model lacks
	noRelation               // a relation that its type lacks
	badTuple                 // a tuple that the model does not admit
	badCondition             // a tuple whose condition the model does not admit
)

func (e *invalid) Error() string { return e.text }

func wrong(w what, format string, args ...any) error {
	return &invalid{w, fmt.Sprintf(format, args...)}
}

// codeOf is the code of the lists, which tell kinds apart; Check and Write
// have one code for all.
func codeOf(err error) codes.Code {
	var e *invalid
	if !errors.As(err, &e) {
		return codeInternal
	}
	return [...]codes.Code{
		malformed: codeValidation, noType: codeTypeNotFound, noRelation: codeRelationNotFound,
		badTuple: codeInvalidTuple, badCondition: codeValidation,
	}[e.what]
}

// parseObject reads "type:id". The service's ids hold no further colon.
func parseObject(field, s string) (rel.Object, error) {
	typ, id, _ := strings.Cut(s, ":")
	if typ == "" || id == "" || strings.ContainsFunc(typ, notInType) || strings.ContainsFunc(id, notInID) {
		return rel.Object{}, wrong(malformed, "invalid '%s' field format", field)
	}
	return rel.Object{Type: typ, ID: id}, nil
}

func notInType(r rune) bool { return r == '#' || r == ' ' || unicode.IsControl(r) }
func notInID(r rune) bool   { return r == ':' || notInType(r) }
func notInRelation(r rune) bool {
	return r == '@' || notInID(r)
}

// parseSubject reads a user: "type:id", "type:*" or "type:id#relation".
func parseSubject(s string) (rel.Subject, error) {
	object, relation, userset := strings.Cut(s, "#")
	if userset && (relation == "" || strings.ContainsFunc(relation, notInRelation)) {
		return rel.Subject{}, wrong(malformed, "the 'user' field is malformed")
	}
	o, err := parseObject("user", object)
	if err != nil {
		return rel.Subject{}, wrong(malformed, "the 'user' field must be an object, a userset or a typed wildcard")
	}
	if userset && o.ID == rel.Wildcard {
		return rel.Subject{}, wrong(malformed, "the 'user' field is malformed")
	}
	return rel.Subject{Type: o.Type, ID: o.ID, Relation: relation}, nil
}

// userForm is the weakest form of a user: a subject, or a word.
func userForm(s string) bool {
	_, err := parseSubject(s)
	return err == nil || s != "" && !strings.ContainsFunc(s, notInID)
}

// subject reads a user and finds its type and relation in the schema.
func subject(s *schema.Schema, user string) (rel.Subject, error) {
	sub, err := parseSubject(user)
	if err != nil {
		return sub, err
	}
	if sub.Relation == "" {
		return sub, hasType(s, sub.Type)
	}
	return sub, hasRelation(s, sub.Type, sub.Relation)
}

func hasType(s *schema.Schema, typ string) error {
	if _, ok := s.Type(typ); !ok {
		return wrong(noType, "type '%s' not found", typ)
	}
	return nil
}

func hasRelation(s *schema.Schema, typ, relation string) error {
	if err := hasType(s, typ); err != nil {
		return err
	}
	if _, ok := s.Relation(typ, relation); !ok {
		return wrong(noRelation, "relation '%s#%s' not found", typ, relation)
	}
	return nil
}

// question reads what a check asks, loosely: names that the schema has.
func question(s *schema.Schema, object, relation, user string) (rel.Key, error) {
	var k rel.Key
	var err error
	if k.Subject, err = subject(s, user); err != nil {
		return k, err
	}
	if k.Object, err = parseObject("object", object); err != nil {
		return k, err
	}
	if k.Object.ID == rel.Wildcard {
		return k, wrong(malformed, "the 'object' field cannot reference a typed wildcard")
	}
	k.Relation = relation
	return k, hasRelation(s, k.Object.Type, relation)
}

// tuple reads a tuple to be written, or a contextual one, strictly: the
// schema's type restrictions must admit it.
func tuple(s *schema.Schema, tk *openfgav1.TupleKey) (rel.Tuple, error) {
	k, err := question(s, tk.GetObject(), tk.GetRelation(), tk.GetUser())
	if err != nil {
		return rel.Tuple{}, wrong(badTuple, "Invalid tuple '%s'. Reason: %v", tk, err)
	}
	t := rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject, Condition: tk.GetCondition().GetName()}
	relation, _ := s.Relation(k.Object.Type, k.Relation)
	kind := s.SubjectKind(k.Subject)
	i := slices.IndexFunc(relation.Restrictions, func(r schema.Restriction) bool { return r.Kind == kind })
	if i < 0 {
		return t, wrong(badTuple, "Invalid tuple '%s'. Reason: no type restriction of '%s#%s' admits '%s'", tk, k.Object.Type, k.Relation, k.Subject)
	}
	if !relation.Restrictions[i].Admits(t.Condition) {
		return t, wrong(badCondition, "Invalid tuple '%s'. Reason: its condition is not of the type restriction", tk)
	}
	if t.Context, err = storedContext(s, tk.GetCondition()); err != nil {
		return t, wrong(badCondition, "Invalid tuple '%s'. Reason: %v", tk, err)
	}
	return t, nil
}

// storedContext checks a tuple's own parameters and gives them as text.
func storedContext(s *schema.Schema, c *openfgav1.RelationshipCondition) (string, error) {
	values := c.GetContext().AsMap()
	if c.GetName() == "" || len(values) == 0 && c.GetName() != inlineName {
		return "", nil
	}
	if err := printable(c.GetContext()); err != nil {
		return "", err
	}
	condition := s.Conditions[c.GetName()]
	if in, ok := condition.Program.(*inline); ok {
		if _, err := in.program(values); err != nil {
			return "", err
		}
		return rel.CanonicalValue(values)
	}
	for name := range values {
		if !slices.ContainsFunc(condition.Definition.Params, func(p expr.Param) bool { return p.Name == name }) {
			return "", fmt.Errorf("found invalid context parameter: %s", name)
		}
	}
	// The program converts values to its parameters' types before all else.
	if res := condition.Program.Eval(values, nil, 0); errors.Is(res.Err, expr.ErrType) {
		return "", res.Err
	}
	return rel.CanonicalValue(values)
}

// printable refuses control characters in a context's keys and strings.
func printable(s *structpb.Struct) error {
	for key, v := range s.GetFields() {
		if strings.ContainsFunc(key, unicode.IsControl) {
			return fmt.Errorf("context key %q contains forbidden characters", key)
		}
		if err := printableValue(v); err != nil {
			return err
		}
	}
	return nil
}

func printableValue(v *structpb.Value) error {
	if strings.ContainsFunc(v.GetStringValue(), unicode.IsControl) {
		return fmt.Errorf("context value %q contains forbidden characters", v.GetStringValue())
	}
	for _, x := range v.GetListValue().GetValues() {
		if err := printableValue(x); err != nil {
			return err
		}
	}
	return printable(v.GetStructValue())
}
