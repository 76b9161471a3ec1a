package relations

import (
	"context"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// The engine denies a check for a subject of an unknown type or relation. A person
// who types the command has misspelt it, so the commands report it as an error, as
// OpenFGA's API does. They do not check the names at an earlier point (--at),
// because another schema may have been current then.

// requireNoWildcard fails if an object that a question names is a wildcard, which
// no tuple can have.
func requireNoWildcard(o rel.Object) error {
	if o.ID == rel.Wildcard {
		return fmt.Errorf("%w: invalid object %q: the object is a wildcard, expected an id", cli.ErrUsage, o)
	}
	return nil
}

// requireSubjects fails with [authz.ErrNoType] or [authz.ErrNoRelation] if a schema
// lacks the type or the relation of one of the subjects; "" is the current schema.
func (f *found) requireSubjects(ctx context.Context, schemaID string, subjects ...rel.Subject) error {
	sc, err := f.Schema(ctx, schemaID)
	if err != nil {
		return nil // the query fails with the same error
	}
	return requireKnown(sc.Model, subjects)
}

// requireKnown fails if m lacks the type or the relation of one of the subjects. It
// accepts all if m has a namespace, because the current schema of another namespace
// may have them.
func requireKnown(m *schema.Model, subjects []rel.Subject) error {
	if m.Namespace != "" {
		return nil
	}
	for _, s := range subjects {
		relations := relationsOf(m, s.Type)
		if relations == nil {
			return fmt.Errorf("%w: %s%s", authz.ErrNoType, s.Type, cli.Suggestion(s.Type, typesOfModel(m)))
		}
		if s.Relation != "" && !slices.Contains(relations, s.Relation) {
			return fmt.Errorf("%w: %s#%s%s", authz.ErrNoRelation, s.Type, s.Relation, cli.Suggestion(s.Relation, relations))
		}
	}
	return nil
}

// typesOfModel returns the names of the types of a model.
func typesOfModel(m *schema.Model) (out []string) {
	for i := range m.Types {
		out = append(out, m.Types[i].Name)
	}
	return out
}

// unknownNames returns the part of a remark about an empty result that names the
// types and relations which the current schema lacks, or "".
func (f *found) unknownNames(ctx context.Context, types []string, relation string) string {
	sc, err := f.Schema(ctx, "")
	if err != nil || sc.Model.Namespace != "" {
		return ""
	}
	m := sc.Model
	text, relations := "", []string(nil)
	for i := range m.Types {
		relations = append(relations, relationsOf(m, m.Types[i].Name)...)
	}
	for _, typ := range types {
		if typ != "" && relationsOf(m, typ) == nil {
			text += fmt.Sprintf("; the current schema has no type %q%s", typ, cli.Suggestion(typ, typesOfModel(m)))
		}
	}
	if relation != "" && !slices.Contains(relations, relation) {
		text += fmt.Sprintf("; the current schema has no relation %q%s", relation, cli.Suggestion(relation, relations))
	}
	return text
}
