package native

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/jsonread"
)

// problem is the error response of this door.
type problem struct {
	// status is the HTTP status.
	status int
	// Code is for machines: a code of errorKinds or one of the door's own.
	Code string `json:"code"`
	// Message is for people.
	Message string `json:"message"`
	// Bound describes the bound that the request exceeded or reached.
	Bound *boundJSON `json:"bound,omitempty"`
	// Resume is the token from which a watcher that fell behind can continue.
	Resume string `json:"resume,omitempty"`
	// Read is the number of tuples of a failed import that were written.
	Read *int `json:"read,omitempty"`
}

// boundJSON is a bound: its name, its value, and what the request has.
type boundJSON struct {
	Name string `json:"name"`
	Max  int64  `json:"max,omitempty"`
	Got  int64  `json:"got,omitempty"`
}

func (p *problem) Error() string { return p.Message }

// errorKinds maps the kinds of errors to statuses and codes. The first kind
// that matches counts.
var errorKinds = [...]struct {
	kind   error
	status int
	code   string
	// hidden errors are not described to clients, because their text could
	// contain internals.
	hidden bool
}{
	{ostiary.ErrNoStore, http.StatusNotFound, "no_store", false},
	{ostiary.ErrStoreExists, http.StatusConflict, "store_exists", false},
	{ostiary.ErrNoSchema, http.StatusNotFound, "no_schema", false},
	{ostiary.ErrInvalidSchema, http.StatusBadRequest, "invalid_schema", false},
	{ostiary.ErrInvalidName, http.StatusBadRequest, "invalid_name", false},
	{ostiary.ErrInvalidTuple, http.StatusBadRequest, "not_admitted", false},
	{ostiary.ErrInvalidRequest, http.StatusBadRequest, "invalid_request", false},
	{ostiary.ErrTupleExists, http.StatusConflict, "tuple_exists", false},
	{ostiary.ErrTupleMissing, http.StatusConflict, "tuple_missing", false},
	{ostiary.ErrPrecondition, http.StatusPreconditionFailed, "precondition", false},
	{ostiary.ErrConflict, http.StatusConflict, "conflict", false},
	{ostiary.ErrUncertain, http.StatusInternalServerError, "uncertain", false},
	{ostiary.ErrNoType, http.StatusBadRequest, "no_type", false},
	{ostiary.ErrNoRelation, http.StatusBadRequest, "no_relation", false},
	{ostiary.ErrNoDocument, http.StatusNotFound, "no_document", false},
	{ostiary.ErrNoSecretKey, http.StatusInternalServerError, "no_secret_key", true},
	{ostiary.ErrToken, http.StatusBadRequest, "token", false},
	{ostiary.ErrCursor, http.StatusBadRequest, "cursor", false},
	{ostiary.ErrTooOld, http.StatusGone, "too_old", false},
	{ostiary.ErrFuture, http.StatusConflict, "future", false},
	{ostiary.ErrBound, http.StatusBadRequest, "bound", false},
	{ostiary.ErrMemory, http.StatusInsufficientStorage, "memory", false},
	{ostiary.ErrLoading, http.StatusServiceUnavailable, "loading", false},
	{ostiary.ErrImporting, http.StatusServiceUnavailable, "importing", false},
	{ostiary.ErrBusy, http.StatusServiceUnavailable, "busy", false},
	{ostiary.ErrPending, http.StatusServiceUnavailable, "busy", false},
	{ostiary.ErrTransaction, http.StatusInternalServerError, "internal", true},
	{ostiary.ErrWatchBehind, http.StatusGone, "behind", false},
	{ostiary.ErrDamaged, http.StatusInternalServerError, "damaged", true},
	{ostiary.ErrFormat, http.StatusInternalServerError, "format", true},
	{ostiary.ErrLocked, http.StatusServiceUnavailable, "locked", true},
	{ostiary.ErrCanceled, http.StatusServiceUnavailable, "canceled", false},
	{ostiary.ErrStorage, http.StatusInternalServerError, "storage", true},
	{ostiary.ErrClosed, http.StatusServiceUnavailable, "closed", true},
	{jsonread.ErrSyntax, http.StatusBadRequest, "malformed", false},
}

// describe translates an error. The text of an internal error is not sent.
func describe(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	var refused *door.Refusal
	if errors.As(err, &refused) {
		p := &problem{status: refused.Status(), Code: "refused", Message: refused.Error()}
		if refused.Bound != "" {
			p.Code, p.Bound = "bound", &boundJSON{Name: refused.Bound, Max: refused.Limit}
		}
		return p
	}
	for _, k := range errorKinds {
		if errors.Is(err, k.kind) {
			p := &problem{status: k.status, Code: k.code, Message: k.kind.Error()}
			if !k.hidden {
				p.Message = ostiary.Reason(err)
			}
			p.detail(err)
			return p
		}
	}
	return &problem{status: http.StatusInternalServerError, Code: "internal", Message: "the server failed"}
}

// detail adds the bound or the token that an error carries.
func (p *problem) detail(err error) {
	var bound *ostiary.BoundError
	if errors.As(err, &bound) {
		p.Bound = &boundJSON{bound.Name, bound.Max, bound.Got}
	}
	var behind *ostiary.WatchError
	if errors.As(err, &behind) {
		p.Resume = string(behind.Resume)
	}
}

// invalidRequest returns the error for a request that is malformed.
func invalidRequest(text string) error {
	return &problem{status: http.StatusBadRequest, Code: "invalid_request", Message: text}
}

// boundReached returns the error for a check that a bound left undecided.
func boundReached(bound string) error {
	return &problem{status: http.StatusUnprocessableEntity, Code: "bound_reached",
		Message: "undecided: the evaluation reached the bound on " + bound, Bound: &boundJSON{Name: bound}}
}

// writeError writes err as the response.
func writeError(w http.ResponseWriter, err error) {
	p := describe(err)
	out, marshalErr := json.Marshal(p)
	if marshalErr != nil {
		out = []byte(`{"code":"internal","message":"the server failed"}`)
	}
	w.Header()["Content-Type"] = jsonType
	if p.status == http.StatusServiceUnavailable {
		door.SetRetryAfter(w.Header())
	}
	w.WriteHeader(p.status)
	w.Write(out)
}

// serveMissing is [door.Door.Missing].
func serveMissing(w http.ResponseWriter, _ *http.Request, methods []string) {
	if len(methods) == 0 {
		writeError(w, &problem{status: http.StatusNotFound, Code: "no_path", Message: "there is no such path"})
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	writeError(w, &problem{status: http.StatusMethodNotAllowed, Code: "no_method", Message: "the method must be " + strings.Join(methods, " or ")})
}

// serveRefusal is [door.Door.Refuse].
func serveRefusal(w http.ResponseWriter, _ *http.Request, why *door.Refusal) {
	p := describe(why)
	if code := refusalCodes[why.Reason]; code != "" {
		p.Code = code
	}
	writeError(w, p)
}

// refusalCodes are the codes of the server's refusals. Other reasons have the
// code "refused", or "bound" if they name one.
var refusalCodes = map[door.Reason]string{
	door.NoCredentials: "no_credentials", door.BadCredentials: "bad_credentials", door.TooLarge: "too_large",
	door.TooMany: "too_many", door.TimedOut: "timed_out", door.ShuttingDown: "shutting_down",
	door.Failed: "internal", door.BadPath: "bad_path",
	door.BadReason: "invalid_request",
}
