package xacml

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/policy/status"
)

// problem is the error response of this door.
type problem struct {
	// status is the HTTP status.
	status int
	// Code is for machines.
	Code string `json:"code"`
	// Message is for people.
	Message string `json:"message"`
	// Reasons are the mistakes of a policy that is rejected.
	Reasons []reason `json:"reasons,omitempty"`
	// Bound is the name of the bound that the request exceeds.
	Bound string `json:"bound,omitempty"`
}

// reason is a mistake in a policy.
type reason struct {
	// Policy is the name of the policy that has the mistake; "root" for the root.
	Policy string `json:"policy,omitempty"`
	// Line and Column are the place of the mistake, from 1.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Message describes the mistake.
	Message string `json:"message"`
}

func (p *problem) Error() string { return p.Message }

// badRequest returns the error of a malformed request.
func badRequest(text string) error {
	return &problem{status: http.StatusBadRequest, Code: "invalid_request", Message: text}
}

// domainKinds maps the errors of package domain to statuses and codes. The first kind
// that matches counts.
var domainKinds = [...]struct {
	kind   error
	status int
	code   string
}{
	{domain.ErrInvalid, http.StatusBadRequest, "invalid_policy"},
	{domain.ErrNoPolicy, http.StatusNotFound, "no_policy"},
	{domain.ErrNoDomain, http.StatusNotFound, "no_domain"},
	{domain.ErrBinding, http.StatusConflict, "binding"},
	{domain.ErrReserved, http.StatusBadRequest, "reserved_attribute"},
	{domain.ErrName, http.StatusBadRequest, "invalid_name"},
}

// describe translates an error. The text of an internal error is not sent.
func describe(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	_, refused := door.RefusalOf(err)
	if invalid, ok := errors.AsType[*status.Error](err); ok && !refused {
		return &problem{status: http.StatusBadRequest, Code: "invalid_request", Message: invalid.Message, Bound: invalid.Bound}
	}
	for _, k := range domainKinds {
		if errors.Is(err, k.kind) {
			p := &problem{status: k.status, Code: k.code, Message: authz.Reason(err), Reasons: reasonsOf(err)}
			if p.Reasons != nil {
				p.Message = "the policy is rejected: " + p.Reasons[0].Message
			}
			return p
		}
	}
	f := door.Describe(err)
	p := &problem{status: f.Status, Code: f.Kind, Message: f.Text}
	if f.Bound != nil {
		p.Bound = f.Bound.Name
	}
	if f.Status == http.StatusUnsupportedMediaType {
		p.Code = "media_type"
	}
	return p
}

// reasonsOf returns the mistakes of a policy that is rejected.
func reasonsOf(err error) (out []reason) {
	var invalid *domain.InvalidError
	if !errors.As(err, &invalid) {
		return nil
	}
	for _, r := range invalid.Reasons {
		at := r.Position
		name := at.Source
		if name == "" {
			name = invalid.Name
		}
		out = append(out, reason{name, at.Line, at.Column, door.ShortText(r.Text)})
	}
	return out
}

// writeError writes err as the response.
func writeError(w http.ResponseWriter, err error) {
	p := describe(err)
	p.Message = door.ShortText(p.Message)
	writeJSON(w, p.status, p)
}

// writeJSON writes a response of the door's own JSON.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"code":"internal","message":"the server failed"}`)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	door.WriteJSON(w, status, append(body, '\n'))
}

// writeBody writes a response.
func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

// serveMissing is [door.Door.Missing].
func serveMissing(w http.ResponseWriter, _ *http.Request, methods []string) {
	if len(methods) == 0 {
		writeError(w, &problem{status: http.StatusNotFound, Code: "no_endpoint", Message: "there is no such endpoint"})
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	writeError(w, &problem{status: http.StatusMethodNotAllowed, Code: "method", Message: "the method must be " + strings.Join(methods, " or ")})
}

// serveRefusal is [door.Door.Refuse].
func serveRefusal(w http.ResponseWriter, _ *http.Request, why *door.Refusal) { writeError(w, why) }
