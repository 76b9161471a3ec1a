package onap

import (
	"errors"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// requestError is an error of the door itself.
type requestError struct {
	status int
	text   string
}

func (e *requestError) Error() string { return e.text }

// errorWriter writes an error in the form of one of the APIs. An empty text means
// that the response has no body.
type errorWriter func(w http.ResponseWriter, status int, text string)

// catalogStatuses are the HTTP statuses of the catalog's errors.
var catalogStatuses = map[catalog.Kind]int{
	catalog.Invalid:       http.StatusBadRequest,
	catalog.NotFound:      http.StatusNotFound,
	catalog.NotAcceptable: http.StatusNotAcceptable,
	catalog.Full:          http.StatusInsufficientStorage,
}

// describe returns the status and the text of an error. The text of an internal
// error is not sent, because it could contain data.
func describe(err error) (status int, text string) {
	if e, ok := errors.AsType[*requestError](err); ok {
		return e.status, e.text
	}
	if e, ok := errors.AsType[*catalog.Error](err); ok {
		return catalogStatuses[e.Kind], e.Text
	}
	if isInput(err) {
		return http.StatusBadRequest, err.Error()
	}
	f := door.Describe(err).OfOwnStore()
	return f.Status, f.Text
}

// fail writes an error as the response.
func (s *service) fail(w http.ResponseWriter, err error, write errorWriter) {
	status, text := describe(err)
	door.SetRetryAfter(w.Header(), status)
	if status == http.StatusInternalServerError {
		s.options.Report(err)
	}
	write(w, status, door.ShortText(text))
}

// codeNames are the names of statuses in error bodies, where they differ from the
// standard text in capitals with underscores.
var codeNames = map[int]string{
	http.StatusRequestEntityTooLarge: "REQUEST_ENTITY_TOO_LARGE",
}

// codeName returns the name of a status, for example "NOT_FOUND".
func codeName(status int) string {
	if name := codeNames[status]; name != "" {
		return name
	}
	return strings.ToUpper(strings.NewReplacer(" ", "_", "-", "_").Replace(http.StatusText(status)))
}

// writeError writes an error in the form of the policy API and of decisions.
func writeError(w http.ResponseWriter, status int, text string) {
	out := append([]byte(`{"code":"`), codeName(status)...)
	out = jsonread.AppendString(append(out, `","error":`...), text)
	out = jsonread.AppendString(append(out, `,"details":[`...), text)
	door.WriteJSON(w, status, append(out, "]}"...))
}

// writeDetails writes an error in the form of the PAP API and of native
// decisions.
func writeDetails(w http.ResponseWriter, status int, text string) {
	if text == "" {
		w.WriteHeader(status)
		return
	}
	out := jsonread.AppendString([]byte(`{"errorDetails":`), text)
	door.WriteJSON(w, status, append(out, '}'))
}

// serveMissing answers a request that no route matches.
func serveMissing(w http.ResponseWriter, r *http.Request, methods []string, write errorWriter) {
	setHeaders(w, r)
	if len(methods) == 0 {
		write(w, http.StatusNotFound, "there is no such route")
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	write(w, http.StatusMethodNotAllowed, "the method must be "+strings.Join(methods, " or "))
}
