package cli

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/tuplefile"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/storage"
)

// The kinds of errors for programs, with --json. docs/cli.md has their meanings.
// The same mistake has the same kind on a folder and on a server.
const (
	kindUsage       = "usage"
	kindNoFolder    = "no_folder"
	kindNoStore     = "no_store"
	kindStores      = "several_stores"
	kindNoSchema    = "no_schema"
	kindNotFound    = "not_found"
	kindInvalid     = "invalid"
	kindConflict    = "conflict"
	kindBound       = "bound"
	kindRefused     = "refused"
	kindUnsupported = "unsupported"
	kindPartial     = "partial"
	kindFile        = "file"
	kindLocked      = "locked"
	kindFormat      = "format"
	kindDamaged     = "damaged"
	kindConnection  = "connection"
	kindBusy        = "busy"
	kindIncomplete  = "incomplete"
	kindInterrupted = "interrupted"
	kindOther       = "error"
)

// errorKinds maps errors to kinds. The first match counts.
var errorKinds = [...]struct {
	err  error
	kind string
}{
	{errNoFolder, kindNoFolder}, {errWhich, kindStores}, {ErrPartial, kindPartial}, {ErrSkipped, kindPartial}, {ErrLeft, kindPartial}, {ErrUnsupported, kindUnsupported},
	{ErrNoCollection, kindNotFound}, {ErrTarget, kindConflict},
	{acp.ErrUndecided, kindBound}, {acp.ErrNotFound, kindNotFound}, {acp.ErrInput, kindInvalid}, {acp.ErrUnauthenticated, kindRefused},
	{acp.ErrUnauthorized, kindRefused}, {acp.ErrForbidden, kindConflict}, {authz.ErrForbidden, kindRefused},
	{ErrUsage, kindUsage},
	{authz.ErrLocked, kindLocked}, {storage.ErrLocked, kindLocked}, {authz.ErrFormat, kindFormat}, {storage.ErrFormat, kindFormat},
	{authz.ErrDamaged, kindDamaged}, {storage.ErrDamaged, kindDamaged},
	{authz.ErrStoreExists, kindConflict}, {authz.ErrTupleExists, kindConflict}, {authz.ErrTupleMissing, kindConflict},
	{authz.ErrPrecondition, kindConflict}, {authz.ErrConflict, kindConflict},
	{authz.ErrNoStore, kindNoStore}, {ErrNoStore, kindNoStore}, {authz.ErrNoSchema, kindNoSchema}, {authz.ErrNoDocument, kindNotFound},
	{ErrBound, kindBound}, {authz.ErrBound, kindBound}, {authz.ErrMemory, kindBound}, {authz.ErrDisk, kindBound}, {tuplefile.ErrBound, kindBound},
	{authz.ErrInvalidSchema, kindInvalid}, {authz.ErrInvalidName, kindInvalid}, {authz.ErrInvalidTuple, kindInvalid},
	{authz.ErrInvalidRequest, kindInvalid}, {authz.ErrNoType, kindInvalid}, {authz.ErrNoRelation, kindInvalid}, {authz.ErrToken, kindInvalid},
	{authz.ErrCursor, kindInvalid}, {authz.ErrTooOld, kindInvalid}, {authz.ErrFuture, kindInvalid}, {domain.ErrInvalid, kindInvalid},
	{tuplefile.ErrTuple, kindInvalid}, {tuplefile.ErrFormat, kindUsage},
	{authz.ErrBusy, kindBusy}, {authz.ErrLoading, kindBusy}, {authz.ErrImporting, kindIncomplete}, {authz.ErrPending, kindBusy}, {authz.ErrClosed, kindBusy},
}

// responseKinds are the kinds of error responses whose codes name no error of the
// engine. Other codes have the kind of their status.
var responseKinds = map[string]string{
	"not_recorded": kindUnsupported, "write_failed_due_to_invalid_input": kindConflict,
	"bound_reached": kindBound, "exceeded_entity_limit": kindBound, "resource_exhausted": kindBound,
	"authorization_model_resolution_too_complex": kindBound, "data_loss": kindDamaged,
}

// errorKind returns the kind of an error for programs.
func errorKind(err error) string {
	if errors.Is(err, context.Canceled) {
		return kindInterrupted
	}
	at, ok := errors.AsType[*client.Error](err)
	if ok && responseKinds[at.Code] != "" {
		return responseKinds[at.Code]
	}
	for _, k := range errorKinds {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	_, isPolicy := errors.AsType[*policy.Error](err)
	_, isFile := errors.AsType[*fs.PathError](err)
	_, isConnection := errors.AsType[*ConnectionError](err)
	_, isRequest := errors.AsType[*url.Error](err)
	switch {
	case isPolicy || isModelError(err):
		return kindInvalid
	case isFile:
		return kindFile
	case isConnection || isRequest:
		return kindConnection
	case ok:
		return responseKind(at)
	}
	return kindOther
}

// responseKind returns the kind of an error response whose code has none.
func responseKind(e *client.Error) string {
	switch {
	case e.Code == "":
		return kindUnsupported
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return kindRefused
	case e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented:
		return kindUnsupported
	case e.Status == http.StatusConflict:
		return kindConflict
	case e.Status == http.StatusRequestEntityTooLarge:
		return kindBound
	case e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable:
		return kindBusy
	case e.Status >= 400 && e.Status < 500 || e.Status == 0: // a stream has no status of its errors
		return kindInvalid
	}
	return kindOther
}

// isModelError reports whether err is about a model.
func isModelError(err error) bool {
	found := false
	leaves(err, func(error) { found = true })
	return found
}

var ErrNoCollection = errors.New("no collection of policies")

// ErrSkipped means that an import is complete except for tuples that no model
// admits.
var ErrSkipped = errors.New("tuples were not imported")

// ErrLeft means that an import has not copied all stores of its source.
var ErrLeft = errors.New("stores were not copied")

// ErrTarget means that an import cannot continue with what the target has.
var ErrTarget = errors.New("the target has another store")

// ErrBound means that the evaluation reached a bound, so the result is neither
// allowed nor denied.
var ErrBound = errors.New("no decision: bound reached")
