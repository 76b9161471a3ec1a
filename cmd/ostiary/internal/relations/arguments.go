package relations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// hintNames returns err, which a command about the tuple t failed with. A tuple of
// a list has no id, and no type where the command has no subject. It adds the hint
// that the subject and the object are swapped if the schema has the relation on the
// type of the subject, but not on that of the object, or that the schema lacks the
// condition. To the error of a server it
// adds the name that is similar to a misspelt one.
func (f *found) hintNames(ctx context.Context, schemaID string, t rel.Tuple, err error) error {
	if !isAboutNames(err) {
		return err
	}
	sc, schemaErr := f.Schema(ctx, schemaID)
	if schemaErr != nil {
		return err
	}
	m := sc.Model
	var conditions []string
	for i := range m.Conditions {
		conditions = append(conditions, m.Conditions[i].Name)
	}
	if t.Condition != "" && !slices.Contains(conditions, t.Condition) {
		return cli.WithHint(err, fmt.Sprintf("the schema has no condition %q%s", t.Condition, cli.Suggestion(t.Condition, conditions)))
	}
	swappable := t.Subject.ID != "" && t.Subject.Relation == "" && !t.Subject.IsWildcard()
	if swappable && !hasRelation(m, t.Object.Type, t.Relation) && hasRelation(m, t.Subject.Type, t.Relation) {
		return cli.WithHint(err, "the arguments are USER RELATION OBJECT: did you mean \""+
			strings.Join([]string{t.Object.String(), t.Relation, t.Subject.String()}, " ")+"\"?")
	}
	if strings.Contains(err.Error(), "did you mean") { // the engine's own errors have suggestions
		return err
	}
	return withSuggestion(err, misspelt(m, t))
}

// hintOrder returns err with a hint if the types of the arguments TYPE[#RELATION]
// RELATION TYPE are in the wrong order: the schema has the relation on the first only.
func (f *found) hintOrder(ctx context.Context, subjectType, relation, objectType string, err error) error {
	if !isAboutNames(err) {
		return err
	}
	sc, schemaErr := f.Schema(ctx, "")
	if schemaErr != nil || hasRelation(sc.Model, objectType, relation) || !hasRelation(sc.Model, subjectType, relation) {
		return err
	}
	return cli.WithHint(err, "the arguments are TYPE[#RELATION] RELATION TYPE: did you mean \""+strings.Join([]string{objectType, relation, subjectType}, " ")+"\"?")
}

// withSuggestion adds a text of [Suggestion] to an error, unless it is "".
func withSuggestion(err error, text string) error {
	if text == "" {
		return err
	}
	return fmt.Errorf("%w%s", err, text)
}

// misspelt returns a suggestion for the first type or relation of t that a model
// lacks, or "".
func misspelt(m *schema.Model, t rel.Tuple) string {
	for _, typ := range [...]string{t.Object.Type, t.Subject.Type} {
		if typ != "" && relationsOf(m, typ) == nil {
			return cli.Suggestion(typ, typesOfModel(m))
		}
	}
	if t.Relation != "" && !hasRelation(m, t.Object.Type, t.Relation) {
		return cli.Suggestion(t.Relation, relationsOf(m, t.Object.Type))
	}
	if t.Subject.Relation != "" && !hasRelation(m, t.Subject.Type, t.Subject.Relation) {
		return cli.Suggestion(t.Subject.Relation, relationsOf(m, t.Subject.Type))
	}
	return ""
}

// isAboutNames reports whether err may come from a wrong type or relation.
func isAboutNames(err error) bool {
	for _, kind := range [...]error{authz.ErrNoRelation, authz.ErrNoType, authz.ErrInvalidTuple, authz.ErrTupleMissing} {
		if errors.Is(err, kind) {
			return true
		}
	}
	at, ok := errors.AsType[*client.Error](err)
	return ok && at.Status >= 400 && at.Status < 500
}

// hasRelation reports whether a model has a relation on a type.
func hasRelation(m *schema.Model, typ, relation string) bool {
	return slices.Contains(relationsOf(m, typ), relation)
}

// relationsOf returns the relations that a model has on a type. It is nil if the
// model lacks the type.
func relationsOf(m *schema.Model, typ string) []string {
	for i := range m.Types {
		if d := &m.Types[i]; d.Name == typ {
			out := make([]string, len(d.Relations))
			for j := range d.Relations {
				out[j] = d.Relations[j].Name
			}
			return out
		}
	}
	return nil
}
