package keystone

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/tool/quote"
)

// statusError is an error with its HTTP status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// unauthorizedText is the text of every 401, so that it does not show whether a
// user exists.
const unauthorizedText = "The request you have made requires authentication."

// unauthorized returns the 401 of a caller who is not authenticated. why is for the
// log only.
func unauthorized(why string) error { return &identity.Error{Reason: identity.Unauthorized, Text: why} }

// unsupportedMethod is the 401 of a login with a method that the deployment does not
// offer. The response names those that it does.
type unsupportedMethod struct{ offered []string }

func (*unsupportedMethod) Error() string {
	return "Attempted to authenticate with an unsupported method."
}

// errNoToken is the error of a request without a token. It is not logged as a failed
// login, because the caller did not try to log in.
var errNoToken = unauthorized("no X-Auth-Token")

// forbidden returns the 403 of an action that the caller may not do.
func forbidden(action string) error {
	return &statusError{http.StatusForbidden, "You are not authorized to perform the requested action: " + action + "."}
}

// malformedEnd is the end of every text about a missing part of a request.
const malformedEnd = " The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error."

// expecting returns the 400 of a request that lacks a part.
func expecting(what, where string) error {
	return &statusError{http.StatusBadRequest, "Expecting to find " + what + " in " + where + "." + malformedEnd}
}

// invalidField returns the 400 of a member with a bad value.
func invalidField(field, value, why string) error {
	return &statusError{http.StatusBadRequest, "Invalid input for field/attribute " + field + ". Value: " + shorten(value) + ". " + why}
}

// notOneOf returns the 400 of a member whose value is not one of those that are
// allowed.
func notOneOf(field, value string, allowed []string) error {
	return invalidField(field, value, "'"+shorten(value)+"' is not one of ['"+strings.Join(allowed, "', '")+"']")
}

// unexpected returns the 400 of a member that a body must not have.
func unexpected(member string) error {
	return &statusError{http.StatusBadRequest, "Additional properties are not allowed ('" + shorten(member) + "' was unexpected)"}
}

// shorten cuts a text of a request for an error.
func shorten(s string) string { return quote.Of(s, 200) }

// statusOf maps the reasons of package identity to HTTP statuses.
var statusOf = map[identity.Reason]int{
	identity.NotFound: http.StatusNotFound, identity.Conflict: http.StatusConflict, identity.Forbidden: http.StatusForbidden,
	identity.Invalid: http.StatusBadRequest, identity.Unauthorized: http.StatusUnauthorized, identity.PasswordAge: http.StatusUnauthorized,
	identity.MoreFactors: http.StatusUnauthorized, identity.Unavailable: http.StatusServiceUnavailable,
	identity.Busy: http.StatusServiceUnavailable,
}

// diskFull is the kind of the failure whose text has the free space of the disk, which a
// caller without a token must not learn.
const diskFull = "disk_full"

// describe returns the status and the text of an error. The text of an internal
// error is not sent, because it could contain data.
func describe(err error) (status int, text string) {
	var known *statusError
	var failed *identity.Error
	var unsupported *unsupportedMethod
	switch {
	case errors.As(err, &unsupported):
		return http.StatusUnauthorized, unsupported.Error()
	case errors.As(err, &known):
		return known.status, known.text
	case errors.As(err, &failed):
		status, text = statusOf[failed.Reason], failed.Text
		if failed.Reason == identity.Unauthorized || failed.Reason == identity.MoreFactors {
			text = unauthorizedText
		}
		if failed.Reason == identity.Invalid && failed.Field != "" {
			text = "Invalid input for field/attribute " + failed.Field + ". " + failed.Text
		}
		return status, text
	case errors.Is(err, authz.ErrNoSecretKey):
		return http.StatusServiceUnavailable, "The server has no key, or another one, for the secrets of this deployment: start it with --secret-key-file."
	}
	f := door.Describe(err).OfOwnStore()
	if f.Kind == diskFull {
		f.Text = "The disk of the server is nearly full: the limit disk-reserve is reached, so the server refuses requests that store something."
	}
	if f.Status == http.StatusInternalServerError {
		f.Text = "An unexpected error prevented the server from fulfilling your request."
	}
	return f.Status, f.Text
}

// report passes an error whose response does not show it to the log.
func (s *service) report(w http.ResponseWriter, err error) {
	s.options.Report(fmt.Errorf("request %s: %w", w.Header().Get(headerRequestID), err))
}

// writeError writes the error response of the API.
func (s *service) writeError(w http.ResponseWriter, r *http.Request, err error) {
	status, text := describe(err)
	h := w.Header()
	switch status {
	case http.StatusUnauthorized:
		if err != errNoToken {
			s.options.Refused(r.RemoteAddr, h.Get(headerRequestID), err)
		}
		h.Set("WWW-Authenticate", s.challenge(r))
	case http.StatusInternalServerError:
		s.report(w, err)
	}
	var body object
	body.begin("error")
	body.number("code", status)
	if u := (*unsupportedMethod)(nil); errors.As(err, &u) {
		body.begin("identity")
		body.texts("methods", u.offered)
		body.end()
	}
	body.text("message", text)
	body.text("title", http.StatusText(status))
	body.end()
	door.WriteJSON(w, status, body.bytes())
}

// challenge is the header WWW-Authenticate of every 401.
func (s *service) challenge(r *http.Request) string { return `Keystone uri="` + s.base(r) + `/v3"` }

// refuse answers a request that the server refuses before the door sees it. Clients
// whose URL of the service ends with a slash send "/v3//auth/tokens": they are sent to
// the path without empty segments, if that is one of the door.
func (s *service) refuse(w http.ResponseWriter, r *http.Request, why *door.Refusal) {
	s.head(w, r)
	if why.Reason == door.BadPath {
		at := *r.URL
		at.Path, at.RawPath = withoutEmptySegments(at.Path), withoutEmptySegments(at.RawPath)
		r = r.WithContext(r.Context())
		r.URL = &at
		if found, _ := s.router.Find(r.Method, at.EscapedPath(), new(door.Params)); found != nil {
			w.Header().Set("Location", s.self(r))
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		}
	}
	s.writeError(w, r, why)
}

// withoutEmptySegments returns a path without its empty segments.
func withoutEmptySegments(path string) string {
	segments := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	return path[:min(len(path), 1)] + strings.Join(segments, "/")
}

// missing answers a request without a route.
func (s *service) missing(w http.ResponseWriter, r *http.Request, methods []string) {
	s.head(w, r)
	if methods != nil {
		w.Header().Set("Allow", strings.Join(append(slices.Clone(methods), http.MethodOptions), ", "))
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusOK)
			return
		}
		var body object
		body.text("message", "The method is not allowed for the requested URL.")
		door.WriteJSON(w, http.StatusMethodNotAllowed, body.bytes())
		return
	}
	s.writeError(w, r, &statusError{http.StatusNotFound, "The requested URL was not found on the server."})
}
