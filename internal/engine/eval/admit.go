package eval

import (
	"fmt"
	"iter"
	"strings"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Admit checks that a schema admits a tuple: the relation exists and is
// assignable, and one of its type restrictions has the kind of the tuple's
// subject and the tuple's condition. The error wraps [ErrTuple] and describes
// the part that is not admitted, and what is.
func Admit(s *schema.Schema, t *rel.Tuple) error {
	r, ok := s.Relation(t.Object.Type, t.Relation)
	if !ok {
		return refuse(t, missingName(s, t.Object.Type, t.Relation))
	}
	if t.Object.ID == "" || t.Subject.ID == "" {
		return refuse(t, "expected ids that are not empty")
	}
	k := s.SubjectKind(t.Subject)
	star := s.Options.StarIsOrdinary && t.Subject.IsWildcard()
	for i := range r.Restrictions {
		x := &r.Restrictions[i]
		if x.Kind != k && !(star && x.Kind == s.SubjectKind(rel.Subject{Type: t.Subject.Type})) {
			continue
		}
		if x.Admits(t.Condition) {
			return nil
		}
	}
	return refuse(t, notAdmitted(s, r, t))
}

// refuse returns an [ErrTuple] for t.
func refuse(t *rel.Tuple, why string) error { return fmt.Errorf("%w: %s: %s", ErrTuple, t.Key(), why) }

// missingName describes the type or relation that s lacks.
func missingName(s *schema.Schema, typ, relation string) string {
	if _, ok := s.Type(typ); !ok {
		return fmt.Sprintf("the schema has no type %q%s", typ, s.Suggestion(typ, ""))
	}
	return fmt.Sprintf("type %s has no relation %q%s", typ, relation, s.Suggestion(typ, relation))
}

// notAdmitted describes why r admits no tuple with the subject and the condition
// of t, and what it admits.
func notAdmitted(s *schema.Schema, r *schema.Relation, t *rel.Tuple) string {
	if len(r.Restrictions) == 0 {
		return computedRelation(s, t)
	}
	if _, ok := s.Type(t.Subject.Type); !ok {
		return missingName(s, t.Subject.Type, "")
	}
	if _, ok := s.Relation(t.Subject.Type, t.Subject.Relation); !ok && t.Subject.Relation != "" {
		return missingName(s, t.Subject.Type, t.Subject.Relation)
	}
	subject := schema.Kind{Type: t.Subject.Type, Relation: t.Subject.Relation, Wildcard: t.Subject.IsWildcard()}
	return fmt.Sprintf("%s does not admit %s; expected %s", t.Relation, kindText(subject, t.Condition), list(restrictionTexts(s, r.Restrictions)))
}

// computedRelation describes that no tuple may have the relation of t, and names
// the relations of the type that a tuple may have.
func computedRelation(s *schema.Schema, t *rel.Tuple) string {
	typ, _ := s.Type(t.Object.Type)
	assignable := list(func(yield func(string) bool) {
		for _, id := range s.RelationsOf(typ) {
			if r := &s.Relations[id]; len(r.Restrictions) > 0 && !yield(r.Name) {
				return
			}
		}
	})
	if assignable == "" {
		return t.Relation + " is computed, and so is every relation of type " + t.Object.Type
	}
	return t.Relation + " is computed; write one of " + assignable
}

// listMax bounds the names in an error text.
const listMax = 10

// list joins the first listMax texts by commas.
func list(texts iter.Seq[string]) string {
	var out []string
	for text := range texts {
		if len(out) == listMax {
			out = append(out, "…")
			break
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// restrictionTexts yields the text of each kind of subject and condition that
// restrictions admit.
func restrictionTexts(s *schema.Schema, restrictions []schema.Restriction) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range restrictions {
			x := &restrictions[i]
			if x.Bare && !yield(kindText(s.Kinds[x.Kind], "")) {
				return
			}
			for _, c := range x.Conditions {
				if !yield(kindText(s.Kinds[x.Kind], c)) {
					return
				}
			}
		}
	}
}

// kindText formats a kind of subject and a condition like a type restriction:
// "user", "user:*", "group#member" or "user with office_hours".
func kindText(k schema.Kind, condition string) string {
	text := k.Type
	switch {
	case k.Wildcard:
		text += ":" + rel.Wildcard
	case k.Relation != "":
		text += "#" + k.Relation
	}
	if condition != "" {
		text += " with " + condition
	}
	return text
}
