package callers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
)

// expectedKind and expectedKey are those of the document of [Registry.Expect].
const (
	expectedKind = "authentication"
	expectedKey  = "expected"
)

// expected is the JSON of that document.
type expected struct {
	Source string `json:"source"`
}

// Expect notes in the system store that the stores were copied from a server that requires
// authentication, so that a copy without keys is not served to everyone by accident.
func (r *Registry) Expect(ctx context.Context, source string) error {
	s, err := r.documents.Create(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(expected{source})
	if err != nil {
		return err
	}
	_, err = s.Store.Write(documents.SystemContext(ctx), authz.WriteRequest{Documents: []authz.Document{{Kind: expectedKind, Key: expectedKey, Body: body}}})
	return err
}

// Expected returns the source that [Registry.Expect] has noted last, or "". It fails if the
// system store cannot be read.
func (r *Registry) Expected(ctx context.Context) (source string, err error) {
	ctx = documents.SystemContext(ctx)
	s, err := r.documents.Find(ctx)
	if err != nil || s == nil {
		return "", err
	}
	d, err := s.Store.Document(ctx, authz.DocumentKey{Kind: expectedKind, Key: expectedKey})
	if errors.Is(err, authz.ErrNoDocument) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var e expected
	if err := json.Unmarshal(d.Body, &e); err != nil {
		return "", fmt.Errorf("%w: document %s of the system store: %w", authz.ErrDamaged, expectedKind, err)
	}
	return e.Source, nil
}
