package ostiary

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/storage"
)

// FindRequest returns what a forwarded request has led to, from the segment of the shared
// log after a sequence on. It fails with [authz.ErrUncertain] if the log cannot be read, or no
// longer has these segments.
func (e *Engine) FindRequest(ctx context.Context, request storage.RequestID, after uint64) (storage.RequestTrace, error) {
	const op = "find request"
	if e.runtime.Copy == nil {
		return storage.RequestTrace{}, errs.Wrap(op, storage.StoreID{}, fmt.Errorf("%w: the driver has no shared log", authz.ErrUncertain))
	}
	found, err := e.runtime.Copy.FindRequest(ctx, request, after)
	if err != nil {
		err = fmt.Errorf("%w: %w", authz.ErrUncertain, err)
	}
	return found, errs.Wrap(op, storage.StoreID{}, err)
}
