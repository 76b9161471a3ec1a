package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/schema"
)

// The engine denies a check for a subject of an unknown type. A person who types
// the command has misspelt the type, so the commands report it as an error, as
// OpenFGA's API does. They do not check the type at an earlier point (--at),
// because another schema may have been current then.

// requireSubjectType fails with [ostiary.ErrNoType] if the schema of a query lacks
// the type of its subject.
func requireSubjectType(ctx context.Context, s *ostiary.Store, flags *queryFlags, typ string) error {
	if flags.at != "" {
		return nil
	}
	sc, err := s.Schema(ctx, flags.schema)
	if err != nil {
		return nil // the query fails with the same error
	}
	return requireTypes(sc.Model, []string{typ})
}

// requireSubjectTypes is like requireSubjectType for commands that use the native
// API.
func (a *app) requireSubjectTypes(ctx context.Context, flags *queryFlags, types ...string) error {
	if flags.at != "" {
		return nil
	}
	m, err := a.nativeModel(ctx, flags.schema)
	if err != nil {
		return nil // the query fails with the same error
	}
	return requireTypes(m, types)
}

// nativeModel returns the model of a schema over the native API; "" is the current
// schema.
func (a *app) nativeModel(ctx context.Context, schemaID string) (*schema.Model, error) {
	_, m, err := a.readNativeSchema(ctx, schemaID)
	return m, err
}

// readNativeSchema is like nativeModel and also returns the id of the schema.
func (a *app) readNativeSchema(ctx context.Context, schemaID string) (id string, m *schema.Model, err error) {
	text, err := a.native(ctx, http.MethodGet, "/schemas/"+url.PathEscape(cmp.Or(schemaID, "current")), nil)
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

// requireTypes fails if m lacks one of the types. It accepts every type if m has a
// namespace, because the current schema of another namespace may have it.
func requireTypes(m *schema.Model, types []string) error {
	if m.Namespace != "" {
		return nil
	}
	known := map[string]bool{}
	var names []string
	for i := range m.Types {
		known[m.Types[i].Name] = true
		names = append(names, m.Types[i].Name)
	}
	for _, t := range types {
		if !known[t] {
			return &ostiary.Error{Op: "query", Kind: ostiary.ErrNoType, Err: fmt.Errorf("%w: %s%s", ostiary.ErrNoType, t, suggestion(t, names))}
		}
	}
	return nil
}
