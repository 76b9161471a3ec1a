package keystone

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/access"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/trail/decisions"
	"github.com/ostiary/ostiary/internal/trail/logins"
)

// route is an entry of the table of routes.
type route struct {
	method string
	path   string // pattern below the prefix
	name   string // name of the operation
	// anonymous routes need no X-Auth-Token.
	anonymous bool
	// reads is true for an operation without effects whose method is not GET. mayWrite is
	// true for one that has effects in some cases only. Any other operation changes
	// something, unless its method is GET.
	reads, mayWrite bool
	login           bool // see [door.Route].Login
	serve           func(*call) error
}

// writes reports whether the operation always changes something.
func (r *route) writes() bool { return r.method != http.MethodGet && !r.reads && !r.mayWrite }

// call is a request in progress.
type call struct {
	*service
	door.Call
	id *identity.Service
	// caller is the validated token of the caller; nil on anonymous routes.
	caller      *identity.Token
	credentials access.Credentials
	query       url.Values
	shownBy     string // the kind of the credential that is verified, see logins.Failure
	begun       bool   // a part of the response was sent
	// arguments are the names that rules use for the parameters of the path.
	arguments []string
	// bodyRead are the members of the body, once they were read.
	bodyRead identity.Members

	// What a notification of the request has: the id of the record that the response
	// shows, the grant that is made or removed, and whether another factor is needed.
	shown   string
	granted *notifiedGrant
	pending bool
}

// serve returns the function that serves a route.
func (s *service) serve(r route) func(http.ResponseWriter, *http.Request, door.Params) {
	arguments := argumentsOf(r.path)
	return func(w http.ResponseWriter, req *http.Request, p door.Params) {
		s.head(w, req)
		c := &call{service: s, Call: door.Call{W: w, R: req, Params: p}, arguments: arguments}
		err := c.open(r.anonymous)
		if err == nil {
			err = r.serve(c)
		}
		c.notify(&r, err)
		if err != nil {
			c.fail(err)
		}
	}
}

// fail answers with an error. If a part of the response was sent, it breaks the
// response off instead, so that the client cannot take it for a whole one.
func (c *call) fail(err error) {
	if !c.begun {
		c.countFailure(err)
		c.writeError(c.W, c.R, err)
		return
	}
	if c.Context().Err() == nil {
		c.options.Report(fmt.Errorf("keystone: a response broke off: %w", err))
	}
	panic(http.ErrAbortHandler)
}

// countFailure counts an error that means that a credential was not accepted.
func (c *call) countFailure(err error) {
	status, _ := describe(err)
	unknown := status == http.StatusNotFound && c.shownBy != "" // for example the id of an application credential
	if err == errNoToken || status != http.StatusUnauthorized && !unknown {
		return
	}
	failed := logins.Failure{Credential: cmp.Or(c.shownBy, logins.CredentialToken), Reason: logins.Refused}
	switch {
	case errors.Is(err, &identity.Error{Reason: identity.PasswordAge}):
		failed.Reason = logins.PasswordExpired
	case errors.Is(err, &identity.Error{Reason: identity.MoreFactors}):
		failed.Reason = logins.MoreFactors
	}
	logins.Fail(c.Context(), failed)
}

// headerRequestID has the id of the request in Keystone's form.
const headerRequestID = "X-Openstack-Request-Id"

// head sets the headers that every response has. It makes a new id for the
// request, which the server's log then has too, and ignores the id that the caller
// sent.
func (s *service) head(w http.ResponseWriter, _ *http.Request) {
	var b [16]byte
	rand.Read(b[:]) // never fails
	x := hex.EncodeToString(b[:])
	h := w.Header()
	h.Set("Vary", "X-Auth-Token")
	id := "req-" + x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
	h.Set(headerRequestID, id)
	h.Set("X-Request-Id", id)
}

// open finds the deployment and authenticates the caller.
func (c *call) open(anonymous bool) (err error) {
	if c.query, err = c.Query(); err != nil {
		return err
	}
	c.R = c.R.WithContext(identity.WithProof(c.Context(), c.R.RemoteAddr))
	if c.id, err = c.deployment(c.Context()); err == nil {
		err = c.id.Enter(c.Context())
	}
	if err != nil || anonymous {
		return err
	}
	text := c.R.Header.Get("X-Auth-Token")
	if text == "" {
		return errNoToken
	}
	c.shownBy = logins.CredentialToken
	if c.caller, err = c.validate(text, 0); err == nil {
		err = c.id.RelyOn(c.Context(), c.caller)
	}
	if errors.Is(err, &identity.Error{Reason: identity.NotFound}) || errors.Is(err, token.ErrInvalid) {
		return unauthorized("invalid X-Auth-Token: " + err.Error())
	}
	if err != nil {
		return err
	}
	if slices.Contains(c.caller.Payload.Methods, identity.MethodEC2) {
		return &statusError{http.StatusForbidden, "EC2 credential tokens cannot be used for authorization."}
	}
	door.Authenticated(c.Context())
	c.shownBy = ""
	c.actAs(c.caller.User.ID)
	c.credentials = credentials(c.caller)
	return c.checkAccessRules()
}

// actAs makes a user the caller of the writes of the request, in the log.
func (c *call) actAs(user string) { identity.ActAs(c.Context(), user) }

// now returns the current time.
func (s *service) now() time.Time {
	if s.options.Identity.Clock != nil {
		return s.options.Identity.Clock()
	}
	return time.Now()
}

// credentials returns what rules may use of a token.
func credentials(t *identity.Token) access.Credentials {
	c := access.Credentials{UserID: t.User.ID, UserDomainID: t.User.Domain, DomainID: t.Scope.DomainID, System: t.Scope.System,
		TrustID: t.Payload.TrustID}
	if t.Scope.ProjectID != "" {
		c.ProjectID, c.ProjectDomainID = t.Target.ID, t.Target.Domain
	}
	for _, r := range t.Roles {
		c.Roles = append(c.Roles, r.Name)
	}
	return c
}

// may fails with 403 unless the caller may call an operation on a target.
func (c *call) may(operation string, t target) error {
	if c.options.Policy().Allowed("identity:"+operation, &c.credentials, &attributes{c, t}) {
		decisions.Count(c.Context(), expr.True, nil)
		return nil
	}
	decisions.Count(c.Context(), expr.False, nil)
	return forbidden("identity:" + operation)
}

// body reads the object that a request's body contains under one name, for
// example {"user": {...}}. Other names are refused, because they could be
// mistaken for attributes of the policy's target.
func (c *call) body(name string) (identity.Members, error) {
	value, err := c.bodyValue(name)
	if err != nil {
		return nil, err
	}
	inner, err := identity.ParseMembers(value)
	if err != nil {
		return nil, invalidField(name, string(value), "expected an object")
	}
	return inner, nil
}

// bodyValue is like body for a value of any type.
func (c *call) bodyValue(name string) (json.RawMessage, error) {
	outer, err := c.bodyMembers()
	if err != nil {
		return nil, err
	}
	for _, m := range outer {
		if m.Name != name {
			return nil, unexpected(m.Name)
		}
	}
	value, ok := outer.Get(name)
	if !ok {
		return nil, &statusError{http.StatusBadRequest, "'" + name + "' is a required property"}
	}
	return value, nil
}

// bodyMembers reads a request's body, which must be a JSON object.
func (c *call) bodyMembers() (identity.Members, error) {
	if c.bodyRead != nil {
		return c.bodyRead, nil
	}
	b, err := c.Body()
	if err != nil {
		return nil, err
	}
	defer c.End() // members are copies
	if _, err := c.Media("application/json"); err != nil && len(b) > 0 {
		return nil, expecting("application/json", "Content-Type header")
	}
	m, err := identity.ParseMembers(b)
	if err != nil || !unambiguous(b) {
		return nil, expecting("valid JSON", "request body")
	}
	c.bodyRead = m
	return m, nil
}

// unambiguous reports whether a text is JSON in which every reader finds the same: no
// object in it has a name twice.
func unambiguous(text []byte) bool {
	r := jsonread.New(text)
	r.Skip()
	return r.End() == nil
}

// base returns scheme and host of links.
func (s *service) base(r *http.Request) string {
	if s.options.URL != "" {
		return s.options.URL
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	if strings.HasPrefix(r.URL.Path, "/identity/") {
		return scheme + r.Host + "/identity"
	}
	return scheme + r.Host
}

// link returns the URL of a path below /v3.
func (c *call) link(path ...string) string {
	url := c.base(c.R) + "/v3"
	for _, p := range path {
		url += "/" + escape(p)
	}
	return url
}

// escape escapes an id for a path. Most ids need no escapes.
func escape(id string) string { return url.PathEscape(id) }

// self returns the URL of a request.
func (s *service) self(r *http.Request) string {
	u := s.base(r) + strings.TrimPrefix(r.URL.EscapedPath(), "/identity")
	if r.URL.RawQuery != "" {
		u += "?" + r.URL.RawQuery
	}
	return u
}

// flag returns whether the query has a parameter with another value than "0" and
// "false".
func (c *call) flag(name string) bool {
	v, ok := c.query[name]
	return ok && v[0] != "0" && !strings.EqualFold(v[0], "false")
}

// write sends an object with a status, or the rest of an object of long.
func (c *call) write(status int, o *object) error {
	if c.begun {
		c.sendPart(o.bytes())
	} else {
		door.WriteJSON(c.W, status, o.bytes())
	}
	return nil
}

// long returns an empty object for a response with the status 200 that may be long.
// It is sent in parts while it is made, so that it needs little memory. A response
// that is shorter than one part is sent as a whole.
func (c *call) long() *object {
	return &object{buf: append(make([]byte, 0, partBytes+partBytes/4), '{'), send: c.sendPart}
}

// sendPart sends a part of the response. It breaks the response off if the client
// is gone.
func (c *call) sendPart(part []byte) {
	if !c.begun {
		c.begun = true
		c.W.Header().Set("Content-Type", "application/json")
		c.W.WriteHeader(http.StatusOK)
	}
	if _, err := c.W.Write(part); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// lasting is the context of a long response: once a part of it was sent, not the
// timeout of the request ends it, but that of writing.
type lasting struct {
	context.Context
	call *call
}

// Err returns nil if the timeout of the request has passed and a part was sent.
func (l lasting) Err() error {
	err := l.Context.Err()
	if l.call.begun && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// done sends an empty response.
func (c *call) done() error {
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}
