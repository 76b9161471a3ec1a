package identity

import (
	"slices"
	"time"
)

// Delegation is what an application credential or a trust delegates: some roles
// of its owner on one project. It never changes, except for Uses and
// UsedUp.
type Delegation struct {
	// TrusteeID is the user who may use a trust; "" for an application credential.
	TrusteeID string `json:"trustee,omitempty"`
	// ProjectID is the project.
	ProjectID string `json:"project"`
	// RoleIDs are the roles. A trust also gives the roles that they imply.
	RoleIDs []string `json:"roles"`
	// Expires is the end of the delegation; nil if it does not expire.
	Expires *time.Time `json:"expires,omitempty"`
	// Unrestricted is true if tokens of an application credential may make and
	// delete application credentials; nil means false.
	Unrestricted *bool `json:"unrestricted,omitempty"`
	// AccessRuleIDs are the access rules of an application credential. Its tokens
	// permit the requests of these rules only; without rules they permit all.
	AccessRuleIDs []string `json:"accessRules,omitempty"`
	// Impersonation is true if tokens of a trust act as the owner, and false if they
	// act as the trustee.
	Impersonation bool `json:"impersonation,omitempty"`
	// Uses is how many tokens can still be made with a trust; nil means no bound.
	Uses *int `json:"uses,omitempty"`
	// UsedUp is the time of the last use of a trust that has no uses left; nil for
	// others.
	UsedUp *time.Time `json:"usedUp,omitempty"`
	// SourceID is the trust that a trust redelegates; "" if it redelegates none.
	SourceID string `json:"source,omitempty"`
	// Redelegations is how many trusts can follow in the chain that begins with a
	// redelegation of a trust.
	Redelegations int `json:"redelegations,omitempty"`
}

// links returns what a delegation of a kind cannot exist without. Without one of
// its roles an application credential ends. A trust stays, so that its owner can
// see it, but [Service.Issue] makes no token with it.
func (d *Delegation) links(k Kind) (all []link) {
	all = append(all, link{Project, d.ProjectID})
	if k == Trust {
		all = append(all, link{User, d.TrusteeID})
		if d.SourceID != "" {
			all = append(all, link{Trust, d.SourceID})
		}
		return all
	}
	for _, id := range d.RoleIDs {
		all = append(all, link{Role, id})
	}
	for _, id := range d.AccessRuleIDs {
		all = append(all, link{AccessRule, id})
	}
	return all
}

// ended returns whether a delegation has expired.
func (d *Delegation) ended(now time.Time) bool { return d.Expires != nil && !now.Before(*d.Expires) }

// primaryMethods are the methods with which users authenticate themselves. Every
// other method delegates rights.
var primaryMethods = []string{"external", MethodPassword, MethodToken, MethodTOTP, "mapped", "openid", "saml2", "kerberos", "x509"}

// Delegated returns whether the token was made with delegated rights: with a
// trust, an application credential, an EC2 credential, an OAuth access token or a
// method that is not known. Such a token must not make other tokens or
// credentials, because they could have more rights or a longer life than it.
func (t *Token) Delegated() bool { return t.Payload.TrustID != "" || t.DelegatedMethod() }

// DelegatedMethod returns whether the token was made with delegated rights other
// than those of a trust.
func (t *Token) DelegatedMethod() bool {
	p := t.Payload
	return len(p.Methods) == 0 || p.ApplicationCredentialID != "" || p.AccessTokenID != "" || p.Thumbprint != "" ||
		slices.ContainsFunc(p.Methods, func(m string) bool { return !slices.Contains(primaryMethods, m) })
}
