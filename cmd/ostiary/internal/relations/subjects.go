package relations

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
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

// requireSubject fails with [ostiary.ErrNoType] or [ostiary.ErrNoRelation] if the
// schema of a query lacks the type or the relation of its subject.
func requireSubject(ctx context.Context, s *ostiary.Store, flags *queryFlags, subject rel.Subject) error {
	if flags.at != "" {
		return nil
	}
	sc, err := s.Schema(ctx, flags.schema)
	if err != nil {
		return nil // the query fails with the same error
	}
	return requireKnown(sc.Model, []rel.Subject{subject})
}

// requireSubjects is like requireSubject for commands that use the native API.
func (a *app) requireSubjects(ctx context.Context, flags *queryFlags, subjects ...rel.Subject) error {
	if flags.at != "" {
		return nil
	}
	m, err := a.nativeModel(ctx, flags.schema)
	if err != nil {
		return nil // the query fails with the same error
	}
	return requireKnown(m, subjects)
}

// nativeModel returns the model of a schema over the native API; "" is the current
// schema.
func (a *app) nativeModel(ctx context.Context, schemaID string) (*schema.Model, error) {
	_, m, err := a.readNativeSchema(ctx, schemaID)
	return m, err
}

// readNativeSchema is like nativeModel and also returns the id of the schema.
func (a *app) readNativeSchema(ctx context.Context, schemaID string) (id string, m *schema.Model, err error) {
	text, err := a.Native(ctx, http.MethodGet, "/schemas/"+url.PathEscape(cmp.Or(schemaID, "current")), nil)
	if err != nil {
		return "", nil, err
	}
	var out struct {
		ID    string
		Model *schema.Model
	}
	if err := json.Unmarshal(text, &out); err != nil || out.Model == nil {
		return "", nil, fmt.Errorf("the response is not valid in the native API: %w", err)
	}
	return out.ID, out.Model, nil
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
			return &ostiary.Error{Op: "query", Kind: ostiary.ErrNoType, Err: fmt.Errorf("%w: %s%s", ostiary.ErrNoType, s.Type, cli.Suggestion(s.Type, typesOfModel(m)))}
		}
		if s.Relation != "" && !slices.Contains(relations, s.Relation) {
			return &ostiary.Error{Op: "query", Kind: ostiary.ErrNoRelation, Err: fmt.Errorf("%w: %s#%s%s", ostiary.ErrNoRelation, s.Type, s.Relation, cli.Suggestion(s.Relation, relations))}
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
func (a *app) unknownNames(ctx context.Context, types []string, relation string) string {
	m, err := a.knownModel(ctx, "")
	if err != nil || m.Namespace != "" {
		return ""
	}
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
