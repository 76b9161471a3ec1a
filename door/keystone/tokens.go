package keystone

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/trail/logins"
)

// authRequest is the body of POST /v3/auth/tokens.
type authRequest struct {
	Auth *struct {
		Identity *authIdentity   `json:"identity"`
		Scope    json.RawMessage `json:"scope"`
	} `json:"auth"`
}

// authIdentity is the object "identity" of a login.
type authIdentity struct {
	Methods []string
	// Parts are the members by their names. The part of a method has its name; that of
	// oauth1 is empty, because the whole request is signed.
	Parts map[string]json.RawMessage
}

func (a *authIdentity) UnmarshalJSON(text []byte) error {
	if err := jsonread.Unmarshal(text, &a.Parts); err != nil {
		return err
	}
	if methods, given := a.Parts["methods"]; given {
		return jsonread.Unmarshal(methods, &a.Methods)
	}
	return nil
}

// reference names a record by its id, or by its name and its domain.
type reference struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Domain *reference `json:"domain"`
}

// scopeRequest is the scope of a request for a token.
type scopeRequest struct {
	Project  *reference      `json:"project"`
	Domain   *reference      `json:"domain"`
	System   *systemRequest  `json:"system"`
	Unscoped json.RawMessage `json:"unscoped"`
	Trust    *reference      `json:"OS-TRUST:trust"`
}

type systemRequest struct {
	All bool `json:"all"`
}

// codec returns the encoder and decoder of tokens.
func (c *call) codec() (*token.Fernet, error) {
	keys, err := c.options.Keys(c.Context())
	return &token.Fernet{Keys: keys, Methods: c.options.Identity.Methods}, err
}

// validate decodes and validates the text of a token.
func (c *call) validate(text string, graceful time.Duration) (*identity.Token, error) {
	codec, err := c.codec()
	if err != nil {
		return nil, err
	}
	p, err := c.decode(codec, text)
	if err != nil {
		return nil, err
	}
	return c.id.Validate(c.Context(), p.payload, p.issued, graceful)
}

// decodedMax bounds the tokens that are remembered.
const decodedMax = 10_000

// decoded is the content of a token.
type decoded struct {
	payload *token.Payload
	issued  time.Time
}

// decode returns the content of a token. It remembers those that could be decoded, by
// the digest of their text, as long as the keys are the same.
func (s *service) decode(codec *token.Fernet, text string) (*decoded, error) {
	keys, digest := digestOf(codec.Keys), sha256.Sum256([]byte(text))
	if d, ok := s.decoded.Get(keys, digest); ok {
		return d, nil
	}
	p, issued, err := codec.Decode(text)
	if err != nil {
		return nil, err
	}
	d := &decoded{p, issued}
	s.decoded.Add(keys, digest, d)
	return d, nil
}

// digestOf returns the digest of a list of keys.
func digestOf(keys []settings.Key) [sha256.Size]byte {
	all := make([]byte, 0, 8*len(settings.Key{}))
	for i := range keys {
		all = append(all, keys[i][:]...)
	}
	return sha256.Sum256(all)
}

// issueToken answers POST /v3/auth/tokens.
func (c *call) issueToken() error {
	members, err := c.bodyMembers()
	if err != nil {
		return err
	}
	text, _ := members.MarshalJSON()
	var r authRequest
	if err := jsonread.Unmarshal(text, &r); err != nil {
		return invalidField("auth", "", "expected an object with the objects identity and scope, as in the description of the API")
	}
	switch {
	case r.Auth == nil:
		return expecting("auth", "request body")
	case r.Auth.Identity == nil:
		return expecting("identity", "auth")
	}
	p, err := c.login(&r)
	if err != nil {
		return err
	}
	scope, explicit, err := c.scopeOf(p, r.Auth.Scope)
	if err != nil {
		return err
	}
	if err := c.useReceipt(p); err != nil {
		return err
	}
	t, err := c.id.Issue(c.Context(), p.user.ID, scope, p.methods, p.from)
	if !explicit && scope != (identity.Scope{}) && errors.Is(err, &identity.Error{Reason: identity.Unauthorized}) {
		t, err = c.id.Issue(c.Context(), p.user.ID, identity.Scope{}, p.methods, p.from)
	}
	if errors.Is(err, &identity.Error{Reason: identity.MoreFactors}) {
		return c.sendReceipt(p)
	}
	if err != nil {
		return err
	}
	return c.sendNewToken(t)
}

// scopeOf returns the scope of a new token: that of the request, that of the
// application credential or the access token, or the default one of the user. explicit is false for the
// default one. A token for the system cannot become one for a project or a domain.
func (c *call) scopeOf(p *proof, text json.RawMessage) (s identity.Scope, explicit bool, err error) {
	s, explicit, err = c.scope(text)
	fromSystem := p.from != nil && p.from.Scope.System
	switch {
	case err != nil:
	case p.application != nil && explicit:
		err = &statusError{http.StatusUnauthorized, "Error authenticating with application credential: Application credentials cannot request a scope."}
	case p.application != nil:
		return identity.Scope{ApplicationCredentialID: p.application.ID}, true, nil
	case p.access != nil:
		return identity.Scope{AccessTokenID: p.access.ID}, true, nil
	case fromSystem && (s.ProjectID != "" || s.DomainID != ""):
		err = forbidden("Using a system-scoped token to create a project-scoped or domain-scoped token is not allowed")
	case !explicit && !fromSystem:
		s = c.defaultScope(p.user)
	}
	return s, explicit, err
}

// proof is what a login has proved.
type proof struct {
	user    *identity.Record // the user, for whom all methods are
	methods []string         // methods of the login, sorted
	from    *identity.Token  // token of a login by token; otherwise nil
	// application is the application credential of the login; nil if there is none.
	application *identity.Record
	// access is the OAuth 1 access token of the login; nil if there is none.
	access *identity.Record
}

// login verifies all methods of a request, which must be for one user.
func (c *call) login(r *authRequest) (*proof, error) {
	id := r.Auth.Identity
	if len(id.Methods) == 0 {
		return nil, unauthorized("no methods")
	}
	p := &proof{methods: slices.Compact(slices.Sorted(slices.Values(id.Methods)))}
	for _, m := range p.methods {
		if part, given := id.Parts[m]; !given || string(part) == "null" {
			return nil, expecting(shorten(m), "identity")
		}
	}
	for _, m := range p.methods {
		if !slices.Contains(provable, m) || !c.id.Offers(m) {
			return nil, &unsupportedMethod{c.id.Methods()}
		}
	}
	for _, m := range p.methods {
		user, err := c.prove(m, id.Parts[m], p)
		if err != nil {
			return nil, err
		}
		if p.user != nil && user.ID != p.user.ID {
			return nil, unauthorized("the methods are of different users")
		}
		p.user = user
		c.actAs(user.ID)
	}
	return p, nil
}

// provable are the methods of a login that the door knows.
var provable = []string{identity.MethodPassword, identity.MethodToken, identity.MethodApplicationCredential, identity.MethodTOTP, identity.MethodOAuth1, identity.MethodMapped}

// credentialOf are the kinds of credentials of the methods.
var credentialOf = map[string]string{
	identity.MethodPassword: logins.CredentialPassword, identity.MethodToken: logins.CredentialToken, identity.MethodApplicationCredential: logins.CredentialApplication,
	identity.MethodTOTP: logins.CredentialTOTP, identity.MethodOAuth1: logins.CredentialOAuth1, identity.MethodMapped: logins.CredentialFederation,
}

// prove verifies one of the methods provable, and returns its user.
func (c *call) prove(method string, part json.RawMessage, p *proof) (user *identity.Record, err error) {
	c.shownBy = credentialOf[method]
	switch method {
	case identity.MethodPassword:
		user, err = c.loginByPassword(part)
	case identity.MethodToken:
		if p.from, err = c.loginByToken(part); err == nil {
			user = p.from.User
		}
	case identity.MethodApplicationCredential:
		user, p.application, err = c.loginByApplication(part)
	case identity.MethodTOTP: // the last one, so that wrong other methods do not use up the password
		user, err = c.loginByTOTP(part)
	case identity.MethodOAuth1:
		user, p.access, err = c.loginByOAuth1()
	case identity.MethodMapped:
		err = c.loginByMapped(part)
	}
	return user, err
}

// loginByMapped refuses a login with the method mapped as Keystone does. Federated users
// log in at their protocol; see loginFederated.
func (c *call) loginByMapped(text json.RawMessage) error {
	var p struct {
		ID       *string `json:"id"`
		Provider string  `json:"identity_provider"`
		Protocol string  `json:"protocol"`
	}
	if err := jsonread.Unmarshal(text, &p); err != nil {
		return invalidField("mapped", "", "expected an object with identity_provider and protocol")
	}
	switch {
	case p.ID != nil:
		if _, err := c.validate(*p.ID, 0); errors.Is(err, token.ErrInvalid) {
			return errNotFernet
		}
	case p.Provider == "":
		return expecting("identity_provider", "mapped")
	case p.Protocol == "":
		return expecting("protocol", "mapped")
	default:
		if _, err := c.id.Get(c.Context(), identity.IdentityProvider, p.Provider); err != nil {
			return err
		}
	}
	return unauthorized("a login with the method mapped, which is not at the path of a protocol")
}

// errNotFernet is the error of a text for a login that is no valid token.
var errNotFernet = &statusError{http.StatusNotFound, "Could not recognize Fernet token"}

// loginByToken validates a token that a new token is made from. A token that is not
// valid is 404, as in Keystone, and a delegated token is refused.
func (c *call) loginByToken(text json.RawMessage) (*identity.Token, error) {
	var p struct {
		ID string `json:"id"`
	}
	if err := jsonread.Unmarshal(text, &p); err != nil {
		return nil, invalidField("token", "", "expected an object with an id")
	}
	from, err := c.validate(p.ID, 0)
	switch {
	case errors.Is(err, token.ErrInvalid):
		err = errNotFernet
	case err == nil && from.Delegated():
		err = forbidden("Using a delegated token to create another token is not allowed")
	}
	return from, err
}

// loginByPassword reads and verifies the part "password" of a request.
func (c *call) loginByPassword(text json.RawMessage) (*identity.Record, error) {
	var p struct {
		User *struct {
			reference
			Password *string `json:"password"`
		} `json:"user"`
	}
	if err := jsonread.Unmarshal(text, &p); err != nil {
		return nil, invalidField("password", "", "expected an object with a user")
	}
	switch {
	case p.User == nil:
		return nil, expecting("user", "password")
	case p.User.Password == nil:
		return nil, expecting("password", "user")
	case p.User.ID == "" && p.User.Name == "":
		return nil, expecting("id or name", "user")
	case p.User.ID == "" && p.User.Domain == nil:
		return nil, expecting("domain", "user")
	}
	domain := ""
	if p.User.ID == "" {
		d, err := c.find(identity.Project, p.User.Domain, "")
		if err != nil {
			return nil, err
		}
		if d == nil {
			d = &identity.Record{} // the login fails, after as much time as another one
		}
		domain = d.ID
	}
	return c.id.Login(c.Context(), p.User.ID, domain, p.User.Name, *p.User.Password)
}

// find returns the record that a reference names, or nil. domain is the domain of
// a name.
func (c *call) find(k identity.Kind, ref *reference, domain string) (*identity.Record, error) {
	if ref.ID != "" {
		return c.lookup(k, ref.ID)
	}
	return orNil(c.id.Find(c.Context(), k, domain, ref.Name))
}

// lookup returns the record with an id, or nil if there is none.
func (c *call) lookup(k identity.Kind, id string) (*identity.Record, error) {
	return orNil(c.id.Get(c.Context(), k, id))
}

// lookupAll returns the records with the ids that exist, in the order of the ids.
func (c *call) lookupAll(k identity.Kind, ids []string) (found []*identity.Record, err error) {
	for _, id := range ids {
		r, err := c.lookup(k, id)
		if err != nil {
			return nil, err
		}
		if r != nil {
			found = append(found, r)
		}
	}
	return found, nil
}

// orNil turns the error of a record that does not exist into nil. Other errors
// stay, so that a list never lacks a record because the store failed.
func orNil(r *identity.Record, err error) (*identity.Record, error) {
	if errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
		return nil, nil
	}
	return r, err
}

// scope reads the scope of a request. explicit is false if the request has none.
func (c *call) scope(text json.RawMessage) (s identity.Scope, explicit bool, err error) {
	if text == nil || string(text) == "null" {
		return s, false, nil
	}
	if string(text) == `"unscoped"` {
		return s, true, nil
	}
	var r scopeRequest
	if err := jsonread.Unmarshal(text, &r); err != nil {
		return s, true, invalidField("scope", string(text), "expected an object")
	}
	given := 0
	for _, present := range []bool{r.Project != nil, r.Domain != nil, r.System != nil, r.Unscoped != nil, r.Trust != nil} {
		if present {
			given++
		}
	}
	switch {
	case given != 1, r.System != nil && !r.System.All:
		return s, true, expecting("system, project, domain, OS-TRUST:trust or unscoped", "scope")
	case r.Trust != nil && r.Trust.ID == "":
		return s, true, expecting("trust_id", "trust")
	case r.Trust != nil:
		s.TrustID = r.Trust.ID
	case r.System != nil:
		s.System = true
	case r.Project != nil:
		s.ProjectID, err = c.scopeProject(r.Project)
	case r.Domain != nil:
		s.DomainID, err = c.scopeDomain(r.Domain)
	}
	return s, true, err
}

// scopeProject returns the id of the project of a scope. A project that does not
// exist is a failed login.
func (c *call) scopeProject(ref *reference) (string, error) {
	domain := ""
	if ref.ID == "" {
		if ref.Domain == nil {
			return "", expecting("domain", "project")
		}
		id, err := c.scopeDomain(ref.Domain)
		if err != nil {
			return "", err
		}
		domain = id
	}
	r, err := c.find(identity.Project, ref, domain)
	if err == nil && (r == nil || r.IsDomain) {
		err = unauthorized("no such project")
	}
	if err != nil {
		return "", err
	}
	return r.ID, nil
}

func (c *call) scopeDomain(ref *reference) (string, error) {
	if ref.ID == "" && ref.Name == "" {
		return "", expecting("id or name", "domain")
	}
	r, err := c.find(identity.Project, ref, "")
	if err == nil && (r == nil || !r.IsDomain) {
		err = unauthorized("no such domain")
	}
	if err != nil {
		return "", err
	}
	return r.ID, nil
}

// defaultScope returns the default project of a user, if there is one.
func (c *call) defaultScope(user *identity.Record) identity.Scope {
	return identity.Scope{ProjectID: user.Members.Text("default_project_id")}
}

// sendNewToken answers with a new token.
func (c *call) sendNewToken(t *identity.Token) error {
	text, err := c.encode(t)
	if err != nil {
		return err
	}
	return c.sendToken(http.StatusCreated, t, text)
}

// encode returns the text of a new token.
func (c *call) encode(t *identity.Token) (string, error) {
	codec, err := c.codec()
	if err != nil {
		return "", err
	}
	return codec.Encode(t.Payload, t.Issued)
}

func (c *call) sendToken(status int, t *identity.Token, text string) error {
	var o object
	if err := c.tokenBody(&o, t); err != nil {
		return err
	}
	door.Authenticated(c.Context())
	c.W.Header().Set("X-Subject-Token", text)
	return c.write(status, &o)
}

// timeForm is the form of times in tokens.
const timeForm = "2006-01-02T15:04:05.000000Z"

// methodsOf returns the methods of a token in the order of Keystone: that of the
// deployment's list, the last one first.
func (c *call) methodsOf(t *identity.Token) []string {
	methods := t.Payload.Methods
	if len(methods) < 2 {
		return methods
	}
	order := c.id.Methods()
	return slices.SortedFunc(slices.Values(methods), func(a, b string) int { return slices.Index(order, b) - slices.Index(order, a) })
}

// tokenBody appends the description of a token.
func (c *call) tokenBody(o *object, t *identity.Token) error {
	o.begin("token")
	o.texts("methods", c.methodsOf(t))
	o.begin("user")
	idAndName(o, "domain", t.Domain)
	o.text("id", t.User.ID)
	o.text("name", t.User.Name)
	if t.Payload.IdentityProvider != "" {
		showFederated(o, t)
	} else {
		o.textOrNull("password_expires_at", passwordExpiry(t.User))
	}
	o.end()
	o.texts("audit_ids", t.Payload.AuditIDs)
	o.text("expires_at", t.Payload.Expires.UTC().Format(timeForm))
	o.text("issued_at", t.Issued.UTC().Format(timeForm))
	if t.Trust != nil {
		showTrustOfToken(o, t.Trust)
	}
	switch {
	case t.Scope.ProjectID != "":
		o.begin("project")
		idAndName(o, "domain", t.TargetDomain)
		o.text("id", t.Target.ID)
		o.text("name", t.Target.Name)
		o.end()
		if t.Trust == nil {
			o.boolean("is_domain", false)
		}
	case t.Scope.DomainID != "":
		idAndName(o, "domain", t.Target)
	case t.Scope.System: // after the roles
	default:
		if err := c.showServiceProviders(o); err != nil {
			return err
		}
		o.end()
		return nil
	}
	if t.Trust != nil {
		c.showRoles(o, t.Roles, false)
	} else {
		list(o, "roles", t.Roles, func(o *object, r *identity.Record) {
			o.text("id", r.ID)
			o.text("name", r.Name)
		})
	}
	if t.Scope.System {
		o.begin("system")
		o.boolean("all", true)
		o.end()
	}
	if !c.query.Has("nocatalog") {
		if err := c.showCatalog(o, t); err != nil {
			return err
		}
	}
	if err := c.showServiceProviders(o); err != nil {
		return err
	}
	showApplicationOfToken(o, t)
	if a := t.AccessToken; a != nil {
		o.begin("OS-OAUTH1")
		o.text("access_token_id", a.ID)
		o.text("consumer_id", a.Parent)
		o.end()
	}
	o.end()
	return nil
}

func idAndName(o *object, member string, r *identity.Record) {
	o.begin(member)
	o.text("id", r.ID)
	o.text("name", r.Name)
	o.end()
}

// subject validates the token in X-Subject-Token, before the caller's right is
// checked, and returns its text.
func (c *call) subject() (*identity.Token, string, error) {
	text := c.R.Header.Get("X-Subject-Token")
	if text == "" {
		return nil, "", &statusError{http.StatusNotFound, "No token in the request"}
	}
	var graceful time.Duration
	if c.flag("allow_expired") {
		graceful = c.id.ExpiredWindow()
	}
	t, err := c.validate(text, graceful)
	if errors.Is(err, token.ErrInvalid) {
		err = &statusError{http.StatusNotFound, "Could not recognize Fernet token"}
	}
	return t, text, err
}

func (c *call) validateToken() error {
	operation := "validate_token"
	if c.R.Method == http.MethodHead {
		operation = "check_token"
	}
	t, text, err := c.subject()
	if err != nil {
		return err
	}
	if len(t.AccessRules) > 0 && !c.checksAccessRules() {
		return &statusError{http.StatusNotFound, "Failed to validate token"}
	}
	if err := c.may(operation, tokenTarget(t)); err != nil {
		return err
	}
	return c.sendToken(http.StatusOK, t, text)
}

// tokenTarget returns the target of an operation on a token.
func tokenTarget(t *identity.Token) target {
	return target{"target.token.user_id": t.Payload.UserID, "target.token.user.domain.id": t.User.Domain}
}

func (c *call) revokeToken() error {
	t, _, err := c.subject()
	if err != nil {
		return err
	}
	if err := c.may("revoke_token", tokenTarget(t)); err != nil {
		return err
	}
	if err := c.id.RevokeToken(c.Context(), t); err != nil {
		return err
	}
	return c.done()
}

// revokeTokensOfUser answers DELETE /v3/users/{id}/tokens.
func (c *call) revokeTokensOfUser() error {
	id := c.Params.At(0)
	u, err := c.byID(users, id)
	if refused := c.may("revoke_tokens_for_user", users.targetOf(u)); refused != nil {
		return refused
	}
	if err == nil {
		err = c.id.RevokeTokensOf(c.Context(), id)
	}
	if err != nil {
		return err
	}
	return c.done()
}

// revocationEvents answers GET /v3/OS-REVOKE/events.
func (c *call) revocationEvents() error {
	if err := c.may("list_revoke_events", nil); err != nil {
		return err
	}
	var since time.Time
	if text := c.query.Get("since"); text != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			return invalidField("since", text, "expected RFC 3339, for example 2026-01-02T15:04:05Z")
		}
	}
	events, err := c.id.Revocations(c.Context(), since)
	if err != nil {
		return err
	}
	var o object
	list(&o, "events", events, func(o *object, e *identity.Revocation) {
		for _, m := range [][2]string{{"audit_id", e.AuditID}, {"audit_chain_id", e.ChainID}, {"user_id", e.UserID}, {"OS-TRUST:trust_id", e.TrustID}} {
			if m[1] != "" {
				o.text(m[0], m[1])
			}
		}
		o.text("issued_before", e.IssuedBefore.UTC().Format(timeForm))
		o.text("revoked_at", e.RevokedAt.UTC().Format(timeForm))
	})
	o.begin("links")
	o.end()
	return c.write(http.StatusOK, &o)
}
