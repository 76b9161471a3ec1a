package authzen

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/jsonread"
)

// refusal is a request that gets no decision: an HTTP status and a sentence.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// statuses is what the engine's kinds of errors are over HTTP, the first match
// counting. What is not in it is the server's own failure.
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
	{ostiary.ErrClosed, http.StatusServiceUnavailable},
	{ostiary.ErrCanceled, http.StatusServiceUnavailable},
	{jsonread.ErrSyntax, http.StatusBadRequest},
}

// describe says an error's status and what may be told of it. What went wrong
// inside is not told.
func describe(err error) (status int, text string) {
	var own *refusal
	if errors.As(err, &own) {
		return own.status, own.text
	}
	var refused *door.Refusal
	if errors.As(err, &refused) {
		return refused.Status(), refused.Error()
	}
	for _, s := range statuses {
		if errors.Is(err, s.kind) {
			return s.status, reason(err)
		}
	}
	return http.StatusInternalServerError, "the server failed"
}

// reason is an error's text without where in the engine it happened.
func reason(err error) string {
	var e *ostiary.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Kind.Error()
}

func fail(w http.ResponseWriter, err error) {
	status, text := describe(err)
	tell(w, status, text)
}

func tell(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	w.Write([]byte(text))
}

func missing(w http.ResponseWriter, r *http.Request, methods []string) {
	echo(w, r)
	if len(methods) == 0 {
		tell(w, http.StatusNotFound, "there is no such endpoint")
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	tell(w, http.StatusMethodNotAllowed, "the method must be "+strings.Join(methods, " or "))
}

func refuse(w http.ResponseWriter, r *http.Request, why *door.Refusal) {
	echo(w, r)
	tell(w, why.Status(), why.Error())
}
