package eval

import (
	"fmt"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Admit checks that a schema admits a tuple: the relation exists and is
// assignable, and one of its type restrictions has the kind of the tuple's
// subject and the tuple's condition. The error wraps [ErrTuple] and describes
// the part that is not admitted.
func Admit(s *schema.Schema, t *rel.Tuple) error {
	r, ok := s.Relation(t.Object.Type, t.Relation)
	if !ok {
		return fmt.Errorf("%w: %s: the schema has no relation %s#%s", ErrTuple, t.Key(), t.Object.Type, t.Relation)
	}
	if t.Object.ID == "" || t.Subject.ID == "" {
		return fmt.Errorf("%w: %s: expected ids that are not empty", ErrTuple, t.Key())
	}
	k := s.SubjectKind(t.Subject)
	star := s.Options.StarIsOrdinary && t.Subject.IsWildcard()
	condition := false
	for i := range r.Restrictions {
		x := &r.Restrictions[i]
		if x.Kind != k && !(star && x.Kind == s.SubjectKind(rel.Subject{Type: t.Subject.Type})) {
			continue
		}
		if x.Admits(t.Condition) {
			return nil
		}
		condition = true
	}
	if condition {
		return fmt.Errorf("%w: %s: the relation does not admit this subject with condition %q", ErrTuple, t.Key(), t.Condition)
	}
	return fmt.Errorf("%w: %s: the relation does not admit this kind of subject", ErrTuple, t.Key())
}
