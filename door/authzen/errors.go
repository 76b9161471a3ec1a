package authzen

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/domain"
)

// requestError is an error of the door itself.
type requestError struct {
	// status is the HTTP status, and text the response's body.
	status int
	text   string
}

func (e *requestError) Error() string { return e.text }

// describe returns the HTTP status and the text of an error. The text of an
// internal error is not sent, because it could contain data.
func describe(err error) (status int, text string) {
	if invalid, ok := errors.AsType[*requestError](err); ok {
		return invalid.status, invalid.text
	}
	if errors.Is(err, domain.ErrReserved) {
		return http.StatusBadRequest, err.Error()
	}
	f := door.Describe(err)
	if f.Status == http.StatusUnsupportedMediaType {
		f.Status = http.StatusBadRequest // that of every malformed request
	}
	if errors.Is(door.KindOf(err), authz.ErrNoSchema) {
		// The protocol has no schemas: the request has a type that the store lacks, as
		// with ErrNoType.
		f.Status = http.StatusBadRequest
	}
	return f.Status, f.Text
}

// writeError writes err as the response.
func writeError(w http.ResponseWriter, err error) {
	status, text := describe(err)
	door.SetRetryAfter(w.Header(), status)
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
	door.SetRetryAfter(w.Header(), why.Status())
	writeText(w, why.Status(), why.Error())
}
