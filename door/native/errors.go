package native

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
)

// problem is the error response of this door.
type problem struct {
	// status is the HTTP status.
	status int
	// Code is for machines: a kind of [door.Failure] or one of the door's own.
	Code string `json:"code"`
	// Message is for people.
	Message string `json:"message"`
	// Bound describes the bound that the request exceeded or reached.
	Bound *boundJSON `json:"bound,omitempty"`
	// Resume is the token from which a watcher that fell behind can continue.
	Resume string `json:"resume,omitempty"`
	// Read is the number of tuples of a failed import that were written.
	Read *int `json:"read,omitempty"`
	// Tuple is the number of the tuple that made an import fail, from 1.
	Tuple int `json:"tuple,omitempty"`
}

// boundJSON is a bound: its name, its value, and what the request has.
type boundJSON struct {
	Name string `json:"name"`
	Max  int64  `json:"max,omitempty"`
	Got  int64  `json:"got,omitempty"`
}

func (p *problem) Error() string { return p.Message }

// describe translates an error. The text of an internal error is not sent.
func describe(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	f := door.Describe(err)
	p := &problem{status: f.Status, Code: f.Kind, Message: f.Text}
	if why, ok := door.RefusalOf(err); ok {
		p.Code = cmp.Or(refusalCodes[why.Reason], p.Code)
	}
	if f.Bound != nil {
		p.Bound = &boundJSON{f.Bound.Name, f.Bound.Max, f.Bound.Got}
	}
	if behind, ok := errors.AsType[*authz.WatchError](err); ok {
		p.Resume = string(behind.Resume)
	}
	return p
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
	door.WriteJSON(w, p.status, out)
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
	writeError(w, why)
}

// refusalCodes are the codes of refusals, whether the server or the door refuses. Other
// reasons have the code "refused", or "bound" if they name one.
var refusalCodes = map[door.Reason]string{
	door.NoCredentials: "no_credentials", door.BadCredentials: "bad_credentials", door.TooLarge: "too_large",
	door.TooMany: "too_many", door.TimedOut: "timed_out", door.ShuttingDown: "shutting_down",
	door.NoHolder: "no_holder", door.Lost: "uncertain",
	door.Failed: "internal", door.BadPath: "bad_path",
	door.BadReason: "invalid_request", door.BadMedia: "content_type", door.Forbidden: "forbidden",
	door.Limited: "limited",
}
