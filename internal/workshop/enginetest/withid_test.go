package enginetest

import (
	"context"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
)

// A schema can keep the id that it has elsewhere. An id that the store has already,
// or that is not a ULID, is refused: schemas are immutable.
func TestSchemaWithID(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		s := newStore(t, x.engine, documents())
		const id = "01KC0000000000000000000003"
		info, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: documents(), WithID: id})
		if err != nil || info.ID != id {
			t.Fatalf("the schema has the id %q, error %v", info.ID, err)
		}
		if got := must(s.CurrentSchema(ctx, ""))(t); got.ID != id {
			t.Errorf("the current schema is %q, want %q", got.ID, id)
		}
		for _, again := range []string{id, "x", "01kc0000000000000000000003"} {
			_, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: documents(), WithID: again})
			wantKind(t, err, authz.ErrInvalidRequest)
			_, err = s.Write(ctx, authz.WriteRequest{Schemas: []authz.SchemaSource{{Model: documents(), WithID: again}}})
			wantKind(t, err, authz.ErrInvalidRequest)
		}
	})
}
