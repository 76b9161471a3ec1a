package errs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// causes are errors of the packages below, and of this one.
func causes() []error {
	key := rel.Key{Object: rel.Object{Type: "document", ID: "1"}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "anne"}}
	all := []error{
		authz.ErrBound, authz.ErrTupleExists, authz.ErrTupleMissing, authz.ErrInvalidTuple, authz.ErrPrecondition, authz.ErrInvalidRequest, authz.ErrConflict, authz.ErrNoSchema,
		authz.ErrToken, authz.ErrCursor, authz.ErrTooOld, authz.ErrFuture, authz.ErrMemory, authz.ErrDisk, authz.ErrLoading, authz.ErrImporting, authz.ErrBusy, authz.ErrPending, authz.ErrWatchBehind, authz.ErrUncertain,
		authz.ErrNoSecretKey, authz.ErrClosed, authz.ErrNoStore, context.Canceled, context.DeadlineExceeded, schema.ErrModel, rel.ErrName,
		eval.ErrNoType, eval.ErrNoRelation, eval.ErrTuple, graph.ErrFull, graph.ErrContext,
		storage.ErrNoStore, storage.ErrExists, storage.ErrNoDocument, storage.ErrTrimmed, storage.ErrFormat, storage.ErrDamaged,
		storage.ErrLocked, storage.ErrTransaction, storage.ErrClosed, storage.ErrTooLarge, storage.ErrEntry,
		errors.New("the disk is full"),
		&authz.BoundError{Name: "Depth", Max: 3, Got: 4}, &authz.TupleError{Kind: authz.ErrTupleExists, Key: key}, &authz.TupleError{Kind: authz.ErrTupleMissing, Key: key},
		&authz.ImportError{Tuple: 2, Err: &authz.TupleError{Kind: authz.ErrTupleExists, Key: key}}, &authz.ImportError{Tuple: 3, Err: errors.New("line 3 is empty")},
		fmt.Errorf("%w: %w", storage.ErrTooLarge, &authz.BoundError{Name: "EntryBytesMax", Max: 1, Got: 2}),
		fmt.Errorf("%w: %w", storage.ErrTooLarge, storage.ErrDamaged),
		// Two kinds: the one that is listed first counts.
		fmt.Errorf("%w: %w", authz.ErrUncertain, context.Canceled), fmt.Errorf("%w: %w", context.Canceled, authz.ErrLoading),
		fmt.Errorf("%w: %w", storage.ErrDamaged, storage.ErrFormat),
	}
	return all
}

// TestWrap prints the text, the reason and the kind of each error as it is, and inside
// of another one.
func TestWrap(t *testing.T) {
	t.Parallel()
	id := storage.StoreID{15: 1}
	var out strings.Builder
	for _, cause := range causes() {
		for _, err := range []error{cause, fmt.Errorf("reading: %w", cause)} {
			wrapped := Wrap("check", id, err)
			e, ok := errors.AsType[*authz.Error](wrapped)
			if !ok || !errors.Is(wrapped, cause) || !errors.Is(wrapped, e.Kind) || e.Op != "check" || e.Store != id {
				t.Errorf("%v: wrapped as %#v", err, wrapped)
				continue
			}
			fmt.Fprintf(&out, "%s\n  reason: %s\n  kind: %s, cause %v\n", wrapped, authz.Reason(wrapped), e.Kind, e.Err)
			if authz.Reason(err) != err.Error() {
				t.Errorf("the reason of %q is %q", err, authz.Reason(err))
			}
		}
	}
	golden.Equal(t, "testdata/wrapped.txt", out.String())
}

// TestWrapAgain wraps errors twice.
func TestWrapAgain(t *testing.T) {
	t.Parallel()
	id, other := storage.StoreID{15: 1}, storage.StoreID{15: 2}
	if err := Wrap("check", id, nil); err != nil {
		t.Errorf("nil becomes %v", err)
	}
	first := Wrap("check", id, errors.New("the disk is full"))
	if again := Wrap("check", other, first); again != first {
		t.Errorf("the same call: got %v", again)
	}
	if got, want := Wrap("list", other, first).Error(), "ostiary: list in store 00000000000000000000000002: storage failed: the disk is full"; got != want {
		t.Errorf("another call: got %s\nexpected %s", got, want)
	}
	within := fmt.Errorf("item 3: %w", first)
	if got, want := authz.Reason(within), "the disk is full"; got != want {
		t.Errorf("the reason of %q: got %q, expected %q", within, got, want)
	}
	if got, want := Wrap("list", storage.StoreID{}, authz.ErrClosed).Error(), "ostiary: list: engine is closed"; got != want {
		t.Errorf("without a store: got %s\nexpected %s", got, want)
	}
}

func TestCheckBound(t *testing.T) {
	t.Parallel()
	for got, want := range map[int]string{0: "<nil>", 5: "<nil>", 6: "bound Depth exceeded: got 6, expected at most 5"} {
		if err := CheckBound("Depth", got, 5); fmt.Sprint(err) != want {
			t.Errorf("%d: %v, expected %s", got, err, want)
		}
	}
	err := error(&authz.BoundError{Name: "Depth", Max: 5, Got: 6})
	if !errors.Is(err, authz.ErrBound) || errors.Is(err, authz.ErrMemory) {
		t.Errorf("a BoundError is ErrBound: %v, ErrMemory: %v", errors.Is(err, authz.ErrBound), errors.Is(err, authz.ErrMemory))
	}
}

// TestReasonOfNil asks for the reason of no error.
func TestReasonOfNil(t *testing.T) {
	t.Parallel()
	if text := authz.Reason(nil); text != "" {
		t.Errorf("the reason of nil is %q", text)
	}
}
