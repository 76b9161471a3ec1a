package identity

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/ostiary/ostiary/internal/identity/token"
)

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
	if err := d.inherit(p, scope, s.now()); err != nil {
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
	issued := d.issueTime(append(bearerOf(p).agents(d, p), p.UserID), now)
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
		if latest := d.revocations.until(user); latest >= issued.Unix() {
			issued = time.Unix(latest+1, 0).UTC()
		}
	}
	return issued
}

func newAuditID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
