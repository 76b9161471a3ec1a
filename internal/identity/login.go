package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/token"
)

// Methods of authentication that [Service] offers.
const (
	MethodPassword = "password"
	MethodToken    = "token"
	MethodTOTP     = "totp"          // a one-time password of RFC 6238
	MethodEC2      = "ec2credential" // a request that is signed with an EC2 credential
	MethodOAuth1   = "oauth1"        // a request that is signed with an OAuth 1 access token
)

// unauthorized returns the error of a login whose credentials are refused. Its
// text is for logs; a door shows one text for all such errors.
func unauthorized(text string) error { return &Error{Reason: Unauthorized, Text: text} }

// Login verifies a user's password. name and domain identify the user if id is
// "". It fails with Unauthorized, in the same time whether the user exists or is
// locked or not, with PasswordAge and with Busy.
func (s *Service) Login(ctx context.Context, id, domain, name, secret string) (*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	user := d.find(User, domain, name)
	if id != "" {
		user, _ = d.get(User, id)
	}
	if s.options.Leads != nil && s.mayCount(user) {
		if err := s.lead(ctx); err != nil {
			return nil, err
		}
	}
	var rests []rest
	if user != nil {
		rests = append(rests, secretOfRecord(user))
	}
	hashes, err := s.hashes(ctx, user)
	if err != nil {
		return nil, err
	}
	known := len(hashes) > 0
	if !known {
		hashes = []string{s.decoy()}
	}
	// A user who is locked already takes as long, too.
	locked := known && s.compliance.locked(user, s.activity(user.ID), s.now())
	hashing := forUser(ctx, cmp.Or(id, domain+"/"+name))
	ok, err := s.verify(hashing, secret, hashes[0])
	if err == nil && (!ok || locked) {
		err = s.verifyOthers(hashing, secret, hashes[0])
	}
	switch {
	case errors.Is(err, &Error{Reason: Busy}):
		return nil, err
	case user == nil:
		return nil, unauthorized("no such user")
	case user.Password == nil:
		return nil, unauthorized("user " + user.ID + " has no password")
	case err != nil:
		return nil, err
	case locked:
		return nil, unauthorized("user " + user.ID + " is locked after wrong passwords")
	case !ok:
		if err := s.wrongPassword(ctx, user); err != nil {
			return nil, err
		}
		return nil, unauthorized("wrong password of user " + user.ID)
	}
	if d, err = s.rely(ctx, rests...); err != nil {
		return nil, err
	}
	knownAs(ctx, user.ID)
	if user, err = d.get(User, user.ID); err != nil {
		return nil, unauthorized(err.Error())
	}
	switch {
	case !s.active(d, user):
		return nil, unauthorized("user " + user.ID + " or its domain is disabled")
	case s.rightPassword(user):
		return nil, unauthorized("user " + user.ID + " was locked after wrong passwords meanwhile")
	case user.expired(s.now()):
		return nil, &Error{Reason: PasswordAge, UserID: user.ID, Text: "The password is expired and needs to be changed for user: " + user.ID + "."}
	}
	s.used(user.ID)
	_ = s.rehash(ctx, user, secret, hashes) // otherwise the next login replaces the hash
	return user, nil
}

// active returns whether a user and its domain are enabled, and the user has not
// been inactive for too long.
func (s *Service) active(d *directory, user *Record) bool {
	domain, err := d.get(Project, user.Domain)
	return err == nil && !user.Disabled && !domain.Disabled && !s.isInactive(user)
}

// decoy returns the hash of a random password. A login of a user that does not
// exist verifies it, and so takes as long as a login of a user that exists.
func (s *Service) decoy() string {
	s.decoyOnce.Do(func() {
		var b [32]byte
		rand.Read(b[:]) // never fails
		text := base64.RawURLEncoding.EncodeToString(b[:])
		s.decoyHash, _ = password.Hash(text, s.rounds()) // the password is short
	})
	return s.decoyHash
}

// verifyOthers compares a wrong password with a hash of each other form that this
// process has seen, so that all wrong logins take equally long, whatever the form of
// the user's hash. It fails with Busy.
func (s *Service) verifyOthers(ctx context.Context, secret, hash string) error {
	for _, other := range s.formsSeen.others(hash, s.decoy()) {
		_, err := s.pool.Verify(ctx, secret, other)
		if b := busy(err); b != nil {
			return b
		}
	}
	return nil
}

// decoyState is the hash of decoy, made on first use, and one hash of each form.
type decoyState struct {
	decoyOnce sync.Once
	decoyHash string
	formsSeen forms
}

// formsMax bounds the forms of hashes that are remembered, because each makes wrong
// logins longer.
const formsMax = 4

// forms are hashes of different forms, in the memory of this process. After a start,
// the first wrong login with a hash of another form therefore still takes another time.
// The methods may be called concurrently.
type forms struct {
	mu   sync.Mutex
	seen []string // one hash of each form
}

// others adds hashes, and returns one of each form that is remembered and not the first
// one's.
func (f *forms) others(hashes ...string) (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, hash := range hashes {
		same := func(seen string) bool { return password.Form(seen) == password.Form(hash) }
		if len(f.seen) < formsMax && !slices.ContainsFunc(f.seen, same) {
			f.seen = append(f.seen, spoiled(hash))
		}
	}
	for _, seen := range f.seen {
		if password.Form(seen) != password.Form(hashes[0]) {
			out = append(out, seen)
		}
	}
	return out
}

// spoiled returns a hash of the same form that no password has.
func spoiled(hash string) string {
	at := len(hash) - 10 // in the digest
	if at < 0 {
		return hash // it is no hash
	}
	other := "a"
	if hash[at] == 'a' {
		other = "b"
	}
	return hash[:at] + other + hash[at+1:]
}

// Scope is what a token is for. At most one field is set in a request; the zero
// Scope is unscoped.
type Scope struct {
	ProjectID string // a project
	DomainID  string // a domain
	System    bool   // the whole system
	// TrustID is a trust, which sets the project and the roles.
	TrustID string
	// ApplicationCredentialID is an application credential, which sets the project
	// and the roles.
	ApplicationCredentialID string
	// AccessTokenID is an OAuth 1 access token, which sets the project and the roles.
	AccessTokenID string
}

// target returns the object that the scope's roles are granted on; "" for an
// unscoped token.
func (s Scope) target() string {
	switch {
	case s.System:
		return System
	case s.ProjectID != "":
		return s.ProjectID
	}
	return s.DomainID
}

// Token is a token with the records that it refers to and the roles that its user
// has in its scope, at the time of the call that returned it.
type Token struct {
	Payload *token.Payload
	Issued  time.Time // time of issue, in whole seconds
	User    *Record   // the user that the token acts as: with a trust that impersonates, the trustor
	Domain  *Record   // the user's domain
	Scope   Scope     // what the token is for
	Target  *Record   // the project or domain of the scope; nil for the system and without a scope
	// TargetDomain is the domain of Target if Target is a project.
	TargetDomain *Record
	Roles        []*Record // roles on the target, in the order of their ids
	// Trust is the trust that the token was made with; nil if there is none.
	Trust *Record
	// ApplicationCredential is the application credential that the token was made
	// with; nil if there is none.
	ApplicationCredential *Record
	// GroupIDs are the groups that the identity provider of a federated user asserted
	// at the login. They count as groups of the user in this token.
	GroupIDs []string
	// AccessRules are the rules of the application credential. Without rules the
	// token permits every request.
	AccessRules []*Record
	// AccessToken is the OAuth 1 access token that the token was made with; nil if
	// there is none.
	AccessToken *Record
}

// Issue makes a token for a user who has logged in. methods are the methods of
// the login. from is the token that the login used, or nil: the new token does
// not live longer than it, and belongs to its chain. Nor does it live longer than
// the trust or the application credential of the scope. Issue counts one use of a
// trust that has a bounded number of them. It fails with Unauthorized if the user
// has no role in the scope, or if the trust or the application credential cannot
// be used, with MoreFactors if the methods do not satisfy the user's rules for
// several factors, and with Forbidden if the trust does not allow it.
func (s *Service) Issue(ctx context.Context, user string, scope Scope, methods []string, from *Token) (*Token, error) {
	p := s.payload(user, scope, methods)
	if from != nil {
		if from.Payload.Expires.Before(p.Expires) {
			p.Expires = from.Payload.Expires
		}
		p.AuditIDs = append(p.AuditIDs, from.Payload.AuditIDs[len(from.Payload.AuditIDs)-1])
		p.IdentityProvider, p.Protocol, p.GroupIDs = from.Payload.IdentityProvider, from.Payload.Protocol, from.Payload.GroupIDs
		p.Methods = []string{MethodToken}
		for _, m := range slices.Concat(from.Payload.Methods, methods) {
			if !slices.Contains(p.Methods, m) {
				p.Methods = append(p.Methods, m)
			}
		}
	}
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	u, err := d.get(User, user)
	if err != nil {
		return nil, unauthorized(err.Error())
	}
	if !enoughMethods(u, p.Methods) {
		return nil, &Error{Reason: MoreFactors, UserID: user, Text: "user " + user + " needs further methods of authentication"}
	}
	if err := d.delegate(p, scope, s.now()); err != nil {
		return nil, err
	}
	switch {
	case p.IdentityProvider != "" && scope.System:
		return nil, unauthorized("a federated user cannot have system scope, because no form of token has both")
	case p.TrustID != "": // roles come from the trust alone
		p.IdentityProvider, p.Protocol, p.GroupIDs = "", "", nil
	}
	var on []rest
	if from != nil {
		on = append(on, validToken(from))
	}
	t, err := s.issue(ctx, p, on...)
	if err != nil {
		return nil, err
	}
	if t.Trust != nil && t.Trust.Delegation.Uses != nil {
		t.Trust, err = s.use(ctx, t.Trust.ID)
	}
	return t, err
}

// payload returns the content of a new token.
func (s *Service) payload(user string, scope Scope, methods []string) *token.Payload {
	p := &token.Payload{UserID: user, Methods: methods, ProjectID: scope.ProjectID, DomainID: scope.DomainID,
		Expires: s.now().Add(s.options.TokenLife).Truncate(time.Second), AuditIDs: []string{newAuditID()}}
	if scope.System {
		p.System = token.SystemAll
	}
	return p
}

// issue returns a new token with its records and roles. It fails with Unauthorized
// if the token would not be valid, or if on or the proof of the request does not hold.
func (s *Service) issue(ctx context.Context, p *token.Payload, on ...rest) (*Token, error) {
	now, d, err := s.moment(ctx)
	if err != nil {
		return nil, err
	}
	if err = s.proven(ctx, d); err == nil {
		err = s.hold(d, on)
	}
	if err != nil {
		return nil, err
	}
	issued := d.issueTime(append(d.agents(p.TrustID), p.UserID), now)
	if issued.Sub(now) > clockSkewMax {
		return nil, unauthorized("the tokens of user " + p.UserID + ", or of a user of the trust, were revoked too often: a token can be made " + (issued.Sub(now) - clockSkewMax).String() + " later")
	}
	t, err := s.expandOn(ctx, d, p, issued)
	if errors.Is(err, &Error{Reason: NotFound}) {
		return nil, unauthorized(err.Error())
	}
	return t, err
}

// moment returns the time and the newest directory. Every revocation that the
// directory lacks is acknowledged with that time or a later one, because the time is
// read first; see final.
func (s *Service) moment(ctx context.Context) (time.Time, *directory, error) {
	now := s.now()
	d, err := s.at(ctx)
	return now, d, err
}

// issueTime returns the time of issue of a new token, in whole seconds. It is
// later than every revocation of the users' tokens, if need be in a later second than
// the current one, so that the new token is valid and no older token is.
func (d *directory) issueTime(users []string, now time.Time) time.Time {
	issued := now.Truncate(time.Second)
	for _, user := range users {
		if latest, ok := d.revocations.latest.Get("user " + user); ok && latest >= issued.Unix() {
			issued = time.Unix(latest+1, 0).UTC()
		}
	}
	return issued
}

// issuedUntil returns the latest time of issue that a token of a user can have. Tokens of a
// trust are dated after the revocations of all users of its chain.
func (d *directory) issuedUntil(user string, now time.Time) time.Time {
	issued := d.issueTime([]string{user}, now)
	if d.revocations.newest < now.Unix() {
		return issued
	}
	for _, x := range d.trustsOf(user) {
		issued = later(issued, d.issueTime(d.agents(x.ID), now))
	}
	return issued
}

func newAuditID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Validate returns a decoded token with its records and roles. It fails with NotFound if
// the token is expired or revoked, if its user or its scope does not exist or is
// disabled, if the user has no role in the scope, or if the token limits its
// roles in a way that the service cannot check. graceful is how long an expired
// token is still accepted, at most [Options.ExpiredWindow] in effect. The result and p
// must not be changed afterwards. Repeated calls with one p are fast while nothing is
// written.
func (s *Service) Validate(ctx context.Context, p *token.Payload, issued time.Time, graceful time.Duration) (*Token, error) {
	now := s.now()
	if !now.Before(p.Expires.Add(graceful)) || now.Sub(issued) > s.tokenAgeMax() || issued.Sub(now) > clockSkewMax {
		return nil, failf(NotFound, "Failed to validate token")
	}
	if unsupported(p) || len(p.AuditIDs) == 0 {
		return nil, failf(NotFound, "Failed to validate token: it has roles that this server cannot find")
	}
	t, err := s.expand(ctx, p, issued)
	if errors.Is(err, &Error{Reason: Forbidden}) { // a trust that may not be used now
		err = failf(NotFound, "%s", err)
	}
	return t, err
}

// clockSkewMax is how far in the future the time of issue of a token may be: the
// clocks of servers that share keys differ, and a token that is made in the second
// of a revocation has a later time. A token from further in the future would outlive
// revocations.
const clockSkewMax = 5 * time.Minute

// tokenAgeMax is the largest age of a token that can be valid. Revocations of older
// tokens are removed, so older tokens are never valid, even if another server that
// shares the keys has a longer TokenLife.
func (s *Service) tokenAgeMax() time.Duration { return s.options.TokenLife + s.options.ExpiredWindow }

// unsupported returns whether a token has roles that this service cannot find: it
// was made with a certificate, or has groups without an identity provider.
// Keystone makes such tokens, and a server that shares its keys can decode them.
func unsupported(p *token.Payload) bool {
	return p.Thumbprint != "" || p.IdentityProvider == "" && len(p.GroupIDs) > 0
}

// expandedMax bounds the tokens of one revision that are remembered.
const expandedMax = 10_000

// expandedKey identifies a token by its decoded content, of which the callers of
// Validate have one for all validations of a token.
type expandedKey struct {
	payload *token.Payload
	issued  int64 // Unix time
}

// expand finds the records and the roles of a token in the newest state. It remembers
// them for that state if they do not depend on the time.
func (s *Service) expand(ctx context.Context, p *token.Payload, issued time.Time) (*Token, error) {
	if err := ctx.Err(); err != nil { // as the lookup of roles would report
		return nil, err
	}
	at, err := s.documents.Newest(ctx)
	if err != nil {
		return nil, err
	}
	key := expandedKey{p, issued.Unix()}
	if t, ok := s.expanded.Get(at, key); ok {
		return t, nil
	}
	t, err := s.expandOn(ctx, at.Value, p, issued)
	if err != nil {
		return nil, err
	}
	// Grants are read after the directory, so they are of its revision or of a newer one.
	if t.Trust == nil && t.ApplicationCredential == nil && t.AccessToken == nil && s.options.Compliance.InactiveDays <= 0 {
		s.expanded.Add(at, key, t)
	}
	return t, nil
}

// expandOn finds the records and the roles of a token on a directory.
func (s *Service) expandOn(ctx context.Context, d *directory, p *token.Payload, issued time.Time) (*Token, error) {
	t, err := s.bearer(d, p, issued)
	if err != nil {
		return nil, err
	}
	return t, s.expandScope(ctx, d, t)
}

// bearer finds the user of a token and what it was made with on a directory, without
// its target and its roles. It fails with NotFound or Forbidden if the token is
// revoked, or if one of them does not exist, has ended or is disabled.
func (s *Service) bearer(d *directory, p *token.Payload, issued time.Time) (t *Token, err error) {
	if d.revocations.revoked(p, issued) {
		return nil, failf(NotFound, "Failed to validate token")
	}
	t = &Token{Payload: p, Issued: issued, Scope: Scope{ProjectID: p.ProjectID, DomainID: p.DomainID, System: p.System != "",
		TrustID: p.TrustID, ApplicationCredentialID: p.ApplicationCredentialID, AccessTokenID: p.AccessTokenID}}
	if t.User, err = d.get(User, p.UserID); err != nil {
		return nil, err
	}
	if !s.active(d, t.User) {
		return nil, failf(NotFound, "Unable to validate token because user %s or its domain is disabled", p.UserID)
	}
	switch {
	case p.IdentityProvider != "":
		err = d.expandFederated(t)
	case p.TrustID != "":
		err = s.expandTrust(d, t)
	case p.ApplicationCredentialID != "":
		err = d.expandApplication(t)
	case p.AccessTokenID != "":
		err = d.expandAccess(t)
	}
	if err != nil {
		return nil, err
	}
	t.Domain, err = d.get(Project, t.User.Domain)
	return t, err
}

func (s *Service) expandScope(ctx context.Context, d *directory, t *Token) (err error) {
	target := t.Scope.target()
	if target == "" {
		return nil
	}
	if !t.Scope.System {
		if t.Target, err = d.get(Project, target); err != nil {
			return err
		}
		if t.Target.IsDomain != (t.Scope.DomainID != "") {
			return missing(Project, target)
		}
		if !d.usable(t.Target) {
			return failf(NotFound, "Unable to validate token because project %s is disabled", target)
		}
		if t.TargetDomain, err = d.get(Project, t.Target.owner()); err != nil {
			return err
		}
	}
	var ids []string
	if t.Trust != nil || t.ApplicationCredential != nil || t.AccessToken != nil {
		ids, err = s.delegatedRoles(ctx, d, t)
	} else {
		ids, err = s.rolesOn(ctx, t.User.ID, target, t.GroupIDs...)
		ids = d.global(ids)
	}
	if err != nil {
		return err
	}
	for _, id := range ids {
		if r, err := d.get(Role, id); err == nil {
			t.Roles = append(t.Roles, r)
		}
	}
	if len(t.Roles) == 0 {
		return failf(NotFound, "Could not find token: user %s has no role in the scope.", t.User.ID)
	}
	return nil
}

// RevokeToken makes a token invalid, and every token that was made from it.
func (s *Service) RevokeToken(ctx context.Context, t *Token) error {
	e := Revocation{AuditID: t.Payload.AuditIDs[0], IssuedBefore: later(s.now(), t.Issued)}
	if len(t.Payload.AuditIDs) == 1 { // the first token of its chain
		e.AuditID, e.ChainID = "", e.AuditID
	}
	_, err := s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		s.revoke(d, &w, e)
		return w, nil
	})
	return err
}

// RevokeTokensOf makes all tokens of a user invalid.
func (s *Service) RevokeTokensOf(ctx context.Context, user string) error {
	e := Revocation{UserID: user}
	_, err := s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		if _, err = d.get(User, user); err == nil {
			s.revoke(d, &w, e)
		}
		return w, err
	})
	if err != nil {
		return err
	}
	return s.final(ctx, e)
}

// Revocations returns the events since a time, in the order of their times.
func (s *Service) Revocations(ctx context.Context, since time.Time) (events []*Revocation, err error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	d.revocations.events.Ascend("", func(_ string, e *Revocation) bool {
		if !e.RevokedAt.Before(since) {
			events = append(events, e)
		}
		return true
	})
	return events, nil
}
