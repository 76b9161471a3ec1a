package identity

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ostiary/ostiary/internal/identity/token"
)

// bearer is what a token rests on beside its user: nothing, a federation, a trust, an
// application credential or an access token. Issuing, validating and revoking all ask it. The
// values have no state, because the ids are in the payload.
type bearer interface {
	// source returns the delegation that a new token inherits from, on a directory; nil if the
	// bearer delegates nothing. It fails with NotFound if the delegation does not exist or has
	// ended.
	source(d *directory, p *token.Payload, now time.Time) (*Record, error)
	// find sets the records of the bearer in a token whose user is set. It fails with NotFound
	// if one of them does not exist or does not belong to the token, and with Forbidden.
	find(s *Service, d *directory, t *Token) error
	// roles returns the ids of the roles of a token whose records are set, without those of
	// domains. It fails with Forbidden.
	roles(ctx context.Context, s *Service, d *directory, t *Token) ([]string, error)
	// agents returns the users apart from the token's whose revocations end the token.
	agents(d *directory, p *token.Payload) []string
}

// bearerOf returns what a token rests on.
func bearerOf(p *token.Payload) bearer {
	if p.IdentityProvider != "" {
		return federation{}
	}
	return delegationOf(p)
}

// delegationOf returns what a token rests on apart from a federation: a federated user can log
// in with a delegation too, and the new token inherits from it.
func delegationOf(p *token.Payload) bearer {
	switch {
	case p.TrustID != "":
		return trust{}
	case p.ApplicationCredentialID != "":
		return application{}
	case p.AccessTokenID != "":
		return access{}
	}
	return alone{}
}

// inherit sets what a new token inherits from the trust, the application
// credential or the access token of its scope: the project, and a life that ends no
// later. It fails with Unauthorized if the delegation does not exist or has ended.
func (d *directory) inherit(p *token.Payload, scope Scope, now time.Time) error {
	p.TrustID, p.ApplicationCredentialID, p.AccessTokenID = scope.TrustID, scope.ApplicationCredentialID, scope.AccessTokenID
	if p.TrustID != "" && p.ApplicationCredentialID != "" || p.AccessTokenID != "" && p.TrustID+p.ApplicationCredentialID != "" {
		return unauthorized("a token cannot have two of a trust, an application credential and an access token")
	}
	from, err := delegationOf(p).source(d, p, now)
	if err != nil {
		return unauthorized(err.Error())
	}
	if from == nil {
		return nil
	}
	p.ProjectID = from.Delegation.ProjectID
	if end := from.Delegation.Expires; end != nil && end.Before(p.Expires) {
		p.Expires = *end
	}
	return nil
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
	if delegationOf(p) == (alone{}) && s.options.Compliance.InactiveDays <= 0 {
		s.expanded.Add(at, key, t)
	}
	return t, nil
}

// expandOn finds the records and the roles of a token on a directory.
func (s *Service) expandOn(ctx context.Context, d *directory, p *token.Payload, issued time.Time) (*Token, error) {
	t, err := s.resolve(d, p, issued)
	if err != nil {
		return nil, err
	}
	return t, s.expandScope(ctx, d, t)
}

// resolve finds the user of a token and its bearer on a directory, without its target and
// its roles. It fails with NotFound or Forbidden if the token is revoked, or if one of them
// does not exist, has ended or is disabled.
func (s *Service) resolve(d *directory, p *token.Payload, issued time.Time) (t *Token, err error) {
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
	if err = bearerOf(p).find(s, d, t); err != nil {
		return nil, err
	}
	t.Domain, err = d.get(Project, t.User.Domain)
	return t, err
}

// expandScope finds the target of a token and the roles on it. It fails with NotFound if
// there is no such target, if it is disabled or if there is no role, and with Forbidden.
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
	ids, err := bearerOf(t.Payload).roles(ctx, s, d, t)
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

// usable returns whether a project and its domain are enabled.
func (d *directory) usable(x *Record) bool {
	if x.Disabled || x.IsDomain {
		return !x.Disabled
	}
	domain, err := d.get(Project, x.Domain)
	return err == nil && !domain.Disabled
}

// alone is the bearer of a token that rests on its user only: it has the roles that the user
// has on the target. Every other bearer embeds it.
type alone struct{}

func (alone) source(*directory, *token.Payload, time.Time) (*Record, error) { return nil, nil }

func (alone) find(*Service, *directory, *Token) error { return nil }

func (alone) roles(ctx context.Context, s *Service, d *directory, t *Token) ([]string, error) {
	return s.globalRolesOn(ctx, d, t.User.ID, t.Scope.target(), t.GroupIDs...)
}

func (alone) agents(*directory, *token.Payload) []string { return nil }

// federation is an identity provider that vouches for the user, and asserted groups.
type federation struct{ alone }

// find checks that the provider still vouches for the user, and finds the groups of the
// token that still exist.
func (federation) find(_ *Service, d *directory, t *Token) error {
	p := t.Payload
	provider, err := d.get(IdentityProvider, p.IdentityProvider)
	switch {
	case err != nil:
		return err
	case provider.Disabled:
		return failf(NotFound, "Unable to validate token because identity provider %s is disabled", provider.ID)
	case !d.has(Protocol, ProtocolKey(provider.ID, p.Protocol)):
		return missing(Protocol, p.Protocol)
	case t.User.Federated == nil || t.User.Federated.ProviderID != provider.ID:
		return failf(NotFound, "Unable to validate token because identity provider %s does not vouch for user %s", provider.ID, t.User.ID)
	}
	for _, id := range p.GroupIDs {
		if d.has(Group, id) {
			t.GroupIDs = append(t.GroupIDs, id)
		}
	}
	return nil
}

// current returns a delegation that has not expired. It fails with NotFound.
func (d *directory) current(k Kind, id string, now time.Time) (*Record, error) {
	x, err := d.get(k, id)
	if err == nil && x.Delegation.ended(now) {
		return nil, missing(k, id)
	}
	return x, err
}

// application is an application credential: roles of its owner on one project, of those that
// the owner still has.
type application struct{ alone }

func (application) source(d *directory, p *token.Payload, now time.Time) (*Record, error) {
	return d.current(ApplicationCredential, p.ApplicationCredentialID, now)
}

func (application) find(_ *Service, d *directory, t *Token) (err error) {
	id := t.Payload.ApplicationCredentialID
	if t.ApplicationCredential, err = d.get(ApplicationCredential, id); err != nil {
		return err
	}
	if a := t.ApplicationCredential; a.Owner != t.User.ID || a.Delegation.ProjectID != t.Payload.ProjectID {
		return missing(ApplicationCredential, id)
	}
	for _, id := range t.ApplicationCredential.Delegation.AccessRuleIDs {
		r, err := d.get(AccessRule, id)
		if err != nil {
			return err
		}
		t.AccessRules = append(t.AccessRules, r)
	}
	return nil
}

func (application) roles(ctx context.Context, s *Service, d *directory, t *Token) ([]string, error) {
	held, err := s.globalRolesOn(ctx, d, t.User.ID, t.ApplicationCredential.Delegation.ProjectID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(held, func(id string) bool { return !slices.Contains(t.ApplicationCredential.Delegation.RoleIDs, id) }), nil
}

// access is an OAuth 1 access token: the roles that its user authorized and what they imply,
// of those that the user still has.
type access struct{ alone }

func (access) source(d *directory, p *token.Payload, now time.Time) (*Record, error) {
	return d.current(AccessToken, p.AccessTokenID, now)
}

func (access) find(_ *Service, d *directory, t *Token) (err error) {
	id := t.Payload.AccessTokenID
	if t.AccessToken, err = d.get(AccessToken, id); err != nil {
		return err
	}
	if a := t.AccessToken; a.Owner != t.User.ID || a.Delegation.ProjectID != t.Payload.ProjectID {
		return missing(AccessToken, id)
	}
	return nil
}

func (access) roles(ctx context.Context, s *Service, d *directory, t *Token) ([]string, error) {
	given, err := s.implied(ctx, t.AccessToken.Delegation.RoleIDs)
	if err != nil {
		return nil, err
	}
	held, err := s.rolesOn(ctx, t.User.ID, t.AccessToken.Delegation.ProjectID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(d.global(given), func(id string) bool { return !slices.Contains(held, id) }), nil
}

// trust is a trust, with those that it redelegates: roles that every trustor of the chain
// still has.
type trust struct{ alone }

func (trust) source(d *directory, p *token.Payload, now time.Time) (*Record, error) {
	return d.current(Trust, p.TrustID, now)
}

// find sets the trust of a token and the user that it acts as. It fails
// with NotFound if the trust or one that it follows from does not exist or has
// expired, or if tokens of its users were revoked, and with Forbidden if one of
// the users may not use it.
func (trust) find(s *Service, d *directory, t *Token) (err error) {
	if t.Trust, err = d.current(Trust, t.Payload.TrustID, s.now()); err != nil {
		return err
	}
	if t.Trust.Delegation.TrusteeID != t.Payload.UserID {
		return failf(Forbidden, "user %s is not the trustee of trust %s", t.Payload.UserID, t.Trust.ID)
	}
	if t.Trust.Delegation.ProjectID != t.Payload.ProjectID {
		return missing(Trust, t.Trust.ID)
	}
	chain, err := d.chain(t.Trust)
	if err != nil {
		return err
	}
	for _, x := range chain {
		if x.Delegation.ended(s.now()) {
			return missing(Trust, x.ID)
		}
		for _, id := range []string{x.Owner, x.Delegation.TrusteeID} {
			if err := s.agent(d, id, t); err != nil {
				return err
			}
		}
	}
	if t.Trust.Delegation.Impersonation {
		t.User, err = d.get(User, t.Trust.Owner)
	}
	return err
}

// agent fails unless a user of a chain of trusts is enabled, and the user's tokens
// were not revoked after the token was issued.
func (s *Service) agent(d *directory, id string, t *Token) error {
	user, err := d.get(User, id)
	switch {
	case err != nil:
		return err
	case d.revocations.revokedUser(id, t.Issued):
		return failf(NotFound, "Failed to validate token")
	case !s.active(d, user):
		return failf(Forbidden, "user %s of trust %s or its domain is disabled", id, t.Trust.ID)
	}
	return nil
}

// roles fails with Forbidden if a trustor of the chain has lost a role of the trust.
func (trust) roles(ctx context.Context, s *Service, d *directory, t *Token) ([]string, error) {
	x := t.Trust
	all, err := s.implied(ctx, x.Delegation.RoleIDs)
	if err != nil {
		return nil, err
	}
	chain, err := d.chain(x)
	if err != nil {
		return nil, err
	}
	err = s.trustorsHold(ctx, d, chain, x.Delegation.RoleIDs, func(role string) error {
		return failf(Forbidden, "a trustor of trust %s no longer has role %s", x.ID, role)
	})
	return d.global(all), err
}

// trustorsHold returns the error that lost makes of the first role that one of the
// trustors in a chain does not have on the project.
func (s *Service) trustorsHold(ctx context.Context, d *directory, chain []*Record, roles []string, lost func(role string) error) error {
	var asked []string
	for _, x := range chain {
		if slices.Contains(asked, x.Owner) {
			continue
		}
		asked = append(asked, x.Owner)
		held, err := s.rolesOn(ctx, x.Owner, x.Delegation.ProjectID)
		if err != nil {
			return err
		}
		for _, role := range roles {
			if !slices.Contains(held, role) {
				return lost(role)
			}
		}
	}
	return nil
}

// chain returns a trust, the one that it redelegates, and so on up to the first
// one.
func (d *directory) chain(x *Record) (all []*Record, err error) {
	all = append(all, x)
	for x.Delegation.SourceID != "" {
		if len(all) > RedelegationsMax {
			return nil, failf(Forbidden, "trust %s redelegates more than %d trusts", all[0].ID, RedelegationsMax)
		}
		if x, err = d.get(Trust, x.Delegation.SourceID); err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

func (trust) agents(d *directory, p *token.Payload) []string { return d.agents(p.TrustID) }

// agents returns the users of the chain of a trust; none if it does not exist.
func (d *directory) agents(trust string) (ids []string) {
	x, err := d.get(Trust, trust)
	if err != nil {
		return nil
	}
	chain, _ := d.chain(x) // a chain that is too long gives no token
	for _, x := range chain {
		ids = append(ids, x.Owner, x.Delegation.TrusteeID)
	}
	return ids
}
