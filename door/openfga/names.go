package openfga

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// nameError is an error in the names or tuples of a request. Each call chooses the
// code for it.
type nameError struct {
	kind nameErrorKind
	text string
}

type nameErrorKind uint8

const (
	malformed    nameErrorKind = iota // the form of a field
	noType                            // a type that the model lacks
	noRelation                        // a relation that its type lacks
	badTuple                          // a tuple that the model does not admit
	badCondition                      // a tuple whose condition the model does not admit
)

// Error returns the text.
func (e *nameError) Error() string { return e.text }

func nameErrorf(w nameErrorKind, format string, args ...any) error {
	return &nameError{w, fmt.Sprintf(format, args...)}
}

// listNameError translates an error for the list calls, which have a code for each
// kind of *nameError. (Check and Write have one code for all kinds.)
func listNameError(err error) error {
	var e *nameError
	if !errors.As(err, &e) {
		return translateError(err)
	}
	return newFailure([...]codes.Code{
		malformed: codeValidation, noType: codeTypeNotFound, noRelation: codeRelationNotFound,
		badTuple: codeInvalidTuple, badCondition: codeValidation,
	}[e.kind], e.text)
}

// parseObject parses "type:id". In this protocol an id has no colon.
func parseObject(field, s string) (rel.Object, error) {
	typ, id, _ := strings.Cut(s, ":")
	if typ == "" || id == "" || containsAny(typ, notInType) || containsAny(id, notInID) {
		return rel.Object{}, nameErrorf(malformed, "invalid '%s' field format", field)
	}
	return rel.Object{Type: typ, ID: id}, nil
}

// Bytes that a type, an id and a relation cannot have.
const (
	notInType     = "# "
	notInID       = ":# "
	notInRelation = "@:# "
)

// containsAny reports whether a name has one of these ASCII bytes, or a control
// character.
func containsAny(s, bytes string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < ' ' || c == 0x7f:
			return true
		case c >= 0x80:
			// C1 control characters are two bytes. No other character begins with this
			// byte and ends below 0xA0.
			if c == 0xC2 && i+1 < len(s) && s[i+1] < 0xA0 {
				return true
			}
		case c <= '@' && strings.IndexByte(bytes, c) >= 0:
			return true
		}
	}
	return false
}

// parseSubject parses a user: "type:id", "type:*" or "type:id#relation".
func parseSubject(s string) (rel.Subject, error) {
	object, relation, userset := strings.Cut(s, "#")
	if userset && (relation == "" || containsAny(relation, notInRelation)) {
		return rel.Subject{}, nameErrorf(malformed, "the 'user' field is malformed")
	}
	o, err := parseObject("user", object)
	if err != nil {
		if !looksLikeUser(s) {
			return rel.Subject{}, nameErrorf(malformed, "the 'user' field is malformed")
		}
		return rel.Subject{}, nameErrorf(malformed, "the 'user' field must be an object (e.g. document:1) or an 'object#relation' or a typed wildcard (e.g. group:*)")
	}
	if userset && o.ID == rel.Wildcard {
		return rel.Subject{}, nameErrorf(malformed, "the 'user' field is malformed")
	}
	return rel.Subject{Type: o.Type, ID: o.ID, Relation: relation}, nil
}

// looksLikeUser reports whether s is a subject, or a word without separators.
func looksLikeUser(s string) bool {
	if s != "" && !containsAny(s, notInID) {
		return true
	}
	object, _, _ := strings.Cut(s, "#")
	if _, err := parseObject("user", object); err != nil {
		return false
	}
	_, err := parseSubject(s)
	return err == nil
}

// parseKnownSubject parses a user whose type and relation the schema has.
func parseKnownSubject(s *schema.Schema, user string) (rel.Subject, error) {
	sub, err := parseSubject(user)
	if err != nil && s.Namespace != "" {
		sub, err = parseNamespacedSubject(user, err)
	}
	if err != nil {
		return sub, err
	}
	if sub.Relation == "" {
		return sub, hasType(s, sub.Type)
	}
	return sub, hasRelation(s, sub.Type, sub.Relation)
}

// parseNamespacedSubject parses a user of a schema with a namespace. Another dialect
// wrote such a schema, for example a policy of document access control. Its ids may
// have colons, as DIDs do; the first colon ends the type. Users of the protocol's
// own models are never parsed this way.
func parseNamespacedSubject(user string, malformed error) (rel.Subject, error) {
	sub, err := rel.ParseSubject(user)
	if err != nil || sub.Validate() != nil {
		return rel.Subject{}, malformed
	}
	return sub, nil
}

// parseNamespacedObject is like parseNamespacedSubject for an object.
func parseNamespacedObject(text string, malformed error) (rel.Object, error) {
	o, err := rel.ParseObject(text)
	if err != nil || o.Validate() != nil {
		return rel.Object{}, malformed
	}
	return o, nil
}

func hasType(s *schema.Schema, typ string) error {
	if _, ok := s.Type(typ); !ok {
		return nameErrorf(noType, "type '%s' not found", typ)
	}
	return nil
}

func hasRelation(s *schema.Schema, typ, relation string) error {
	if _, ok := s.Relation(typ, relation); ok {
		return nil
	}
	if err := hasType(s, typ); err != nil {
		return err
	}
	return nameErrorf(noRelation, "relation '%s#%s' not found", typ, relation)
}

// parseCheckKey parses the key of a check. The schema must have its types and
// relations, but need not admit it as a tuple.
func parseCheckKey(s *schema.Schema, key *wire.Key) (rel.Key, error) {
	if k, plain := plainKey(key); plain {
		return k, checkKnown(s, &k)
	}
	return parseUnusualKey(s, key)
}

// parseUnusualKey is like parseCheckKey, also for names that are not plain.
func parseUnusualKey(s *schema.Schema, key *wire.Key) (rel.Key, error) {
	var k rel.Key
	var err error
	if k.Subject, err = parseKnownSubject(s, key.User); err != nil {
		return k, err
	}
	if k.Object, err = parseKnownObject(s, key.Object); err != nil {
		return k, err
	}
	if key.Relation == "" || containsAny(key.Relation, notInRelation) {
		return k, nameErrorf(malformed, "the 'relation' field is malformed")
	}
	k.Relation = key.Relation
	return k, hasRelation(s, k.Object.Type, k.Relation)
}

// parseKnownObject parses an object. It fails if the schema does not have the object's type.
func parseKnownObject(s *schema.Schema, text string) (rel.Object, error) {
	o, err := parseObject("object", text)
	if err != nil && s.Namespace != "" {
		o, err = parseNamespacedObject(text, err)
	}
	if err != nil {
		return o, err
	}
	if o.ID == rel.Wildcard {
		return o, nameErrorf(malformed, "the 'object' field cannot reference a typed wildcard")
	}
	return o, hasType(s, o.Type)
}

// parseTuple parses a tuple to write, or a contextual one. The schema must admit it.
func parseTuple(s *schema.Schema, in *wire.Tuple) (rel.Tuple, error) {
	refuse := func(w nameErrorKind, format string, args ...any) error {
		return nameErrorf(w, "Invalid tuple '%s'. Reason: %s", tupleText(in), fmt.Sprintf(format, args...))
	}
	k, err := parseCheckKey(s, &in.Key)
	if err != nil {
		return rel.Tuple{}, refuse(badTuple, "%v", err)
	}
	t := rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject}
	if in.Condition != nil {
		t.Condition = in.Condition.Name
	}
	relation, _ := s.Relation(k.Object.Type, k.Relation)
	kind := s.SubjectKind(k.Subject)
	i := slices.IndexFunc(relation.Restrictions, func(r schema.Restriction) bool { return r.Kind == kind })
	if i < 0 {
		return t, refuse(badTuple, "%s is not an allowed type restriction for '%s#%s'", kindText(k.Subject), k.Object.Type, k.Relation)
	}
	if !relation.Restrictions[i].Admits(t.Condition) {
		return t, refuse(badCondition, "%s", conditionMismatch(s, t.Condition))
	}
	if t.Context, err = storedContext(s, in.Condition); err != nil {
		return t, refuse(badCondition, "%v", err)
	}
	return t, nil
}

// kindText names the kind of a subject in an error.
func kindText(s rel.Subject) string {
	switch {
	case s.Relation != "":
		return "'" + s.Type + "#" + s.Relation + "'"
	case s.IsWildcard():
		return "the typed wildcard '" + s.String() + "'"
	}
	return "type '" + s.Type + "'"
}

func conditionMismatch(s *schema.Schema, name string) string {
	switch {
	case name == "":
		return "condition is missing"
	case s.Conditions[name] == nil:
		return "undefined condition"
	}
	return "invalid condition for type restriction"
}

// tupleText prints a tuple for an error.
func tupleText(t *wire.Tuple) string {
	s := keyText(&t.Key)
	if t.Condition != nil {
		s += " (condition " + t.Condition.Name + ")"
	}
	return s
}

func keyText(k *wire.Key) string { return k.Object + "#" + k.Relation + "@" + k.User }

// storedContext checks the context of a tuple's condition and returns it as text.
func storedContext(s *schema.Schema, c *wire.Condition) (string, error) {
	if c == nil || len(c.Context) == 0 && c.Name != language.InlineCondition {
		return "", nil
	}
	if err := checkPrintable(c.Context); err != nil {
		return "", err
	}
	condition := s.Conditions[c.Name]
	if in, ok := condition.Program.(*inline); ok {
		if _, err := in.program(c.Context); err != nil {
			return "", err
		}
		return rel.CanonicalValue(c.Context)
	}
	for name := range c.Context {
		if !slices.ContainsFunc(condition.Definition.Params, func(p expr.Param) bool { return p.Name == name }) {
			return "", fmt.Errorf("found invalid context parameter: %s", name)
		}
	}
	// The program first converts the values to the types of its parameters.
	if res := condition.Program.Eval(c.Context, nil, 0); errors.Is(res.Err, expr.ErrType) {
		return "", res.Err
	}
	return rel.CanonicalValue(c.Context)
}

// checkPrintable refuses control characters in the keys and strings of a context.
func checkPrintable(values expr.Values) error {
	for key, v := range values {
		if strings.ContainsFunc(key, unicode.IsControl) {
			return fmt.Errorf("context key %q contains forbidden characters", key)
		}
		if err := checkPrintableValue(v); err != nil {
			return err
		}
	}
	return nil
}

func checkPrintableValue(v any) error {
	switch x := v.(type) {
	case string:
		if strings.ContainsFunc(x, unicode.IsControl) {
			return fmt.Errorf("context value %q contains forbidden characters", x)
		}
	case []any:
		for _, e := range x {
			if err := checkPrintableValue(e); err != nil {
				return err
			}
		}
	case map[string]any:
		return checkPrintable(x)
	}
	return nil
}
