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

// Expected is why a folder must not be served to everyone by accident. It is the JSON of that
// document.
type Expected struct {
	// Source is the server that requires authentication, from which the stores were copied;
	// "" if they were not.
	Source string `json:"source"`
	// Folder identifies the folder that was served with authentication; "" if none was. In
	// another folder, the document is a copy of that one.
	Folder string `json:"folder,omitempty"`
}

// Expect notes in the system store why the folder must not be served to everyone by accident:
// its keys may be in files elsewhere, or were not copied.
func (r *Registry) Expect(ctx context.Context, why Expected) error {
	s, err := r.documents.Create(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(why)
	if err != nil {
		return err
	}
	_, err = s.Store.Write(documents.SystemContext(ctx), authz.WriteRequest{Documents: []authz.Document{{Kind: expectedKind, Key: expectedKey, Body: body}}})
	return err
}

// Expected returns what [Registry.Expect] has noted last, or the zero value. It fails if the
// system store cannot be read.
func (r *Registry) Expected(ctx context.Context) (why Expected, err error) {
	ctx = documents.SystemContext(ctx)
	s, err := r.documents.Find(ctx)
	if err != nil || s == nil {
		return why, err
	}
	d, err := s.Store.Document(ctx, authz.DocumentKey{Kind: expectedKind, Key: expectedKey})
	if errors.Is(err, authz.ErrNoDocument) {
		return why, nil
	}
	if err != nil {
		return why, err
	}
	if err := json.Unmarshal(d.Body, &why); err != nil {
		return why, fmt.Errorf("%w: document %s of the system store: %w", authz.ErrDamaged, expectedKind, err)
	}
	return why, nil
}
