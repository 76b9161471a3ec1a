package authzen

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/jsonread"
	"github.com/ostiary/ostiary/policy/domain"
)

// requestError is an error of the door itself.
type requestError struct {
	// status is the HTTP status, and text the response's body.
	status int
	text   string
}

func (e *requestError) Error() string { return e.text }

// statuses maps the kinds of errors to HTTP statuses. The first kind that
// matches counts. An error of any other kind is an internal error.
var statuses = [...]struct {
	kind   error
	status int
}{
	{ostiary.ErrNoStore, http.StatusNotFound},
	{ostiary.ErrNoSchema, http.StatusBadRequest},
	{ostiary.ErrInvalidName, http.StatusBadRequest},
	{ostiary.ErrInvalidTuple, http.StatusBadRequest},
	{ostiary.ErrInvalidRequest, http.StatusBadRequest},
	{ostiary.ErrNoType, http.StatusBadRequest},
	{ostiary.ErrNoRelation, http.StatusBadRequest},
	{ostiary.ErrToken, http.StatusBadRequest},
	{ostiary.ErrFuture, http.StatusBadRequest},
	{ostiary.ErrCursor, http.StatusBadRequest},
	{ostiary.ErrTooOld, http.StatusBadRequest},
	{ostiary.ErrBound, http.StatusBadRequest},
	{ostiary.ErrLoading, http.StatusServiceUnavailable},
	{ostiary.ErrImporting, http.StatusServiceUnavailable},
	{ostiary.ErrClosed, http.StatusServiceUnavailable},
	{ostiary.ErrCanceled, http.StatusServiceUnavailable},
	{domain.ErrReserved, http.StatusBadRequest},
	{jsonread.ErrSyntax, http.StatusBadRequest},
}

// describe returns the HTTP status and the text of an error. The text of an
// internal error is not sent, because it could contain data.
func describe(err error) (status int, text string) {
	var invalid *requestError
	if errors.As(err, &invalid) {
		return invalid.status, invalid.text
	}
	var refused *door.Refusal
	if errors.As(err, &refused) {
		return refused.Status(), refused.Error()
	}
	for _, s := range statuses {
		if errors.Is(err, s.kind) {
			return s.status, ostiary.Reason(err)
		}
	}
	return http.StatusInternalServerError, "the server failed"
}

// writeError writes err as the response.
func writeError(w http.ResponseWriter, err error) {
	status, text := describe(err)
	if status == http.StatusServiceUnavailable {
		door.SetRetryAfter(w.Header())
	}
	writeText(w, status, text)
}

// writeText writes a response of plain text.
func writeText(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	w.Write([]byte(text))
}

// serveMissing is [door.Door.Missing].
func serveMissing(w http.ResponseWriter, r *http.Request, methods []string) {
	echoRequestID(w, r)
	if len(methods) == 0 {
		writeText(w, http.StatusNotFound, "there is no such endpoint")
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	writeText(w, http.StatusMethodNotAllowed, "the method must be "+strings.Join(methods, " or "))
}

// serveRefusal is [door.Door.Refuse].
func serveRefusal(w http.ResponseWriter, r *http.Request, why *door.Refusal) {
	echoRequestID(w, r)
	writeText(w, why.Status(), why.Error())
}
