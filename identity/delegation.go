package identity

import (
	"slices"

	"github.com/ostiary/ostiary/identity/token"
)

// primaryMethods are the methods with which users authenticate themselves. Every
// other method delegates rights.
var primaryMethods = []string{"external", MethodPassword, MethodToken, MethodTOTP, "mapped", "openid", "saml2", "kerberos", "x509"}

// Delegated returns whether the token was made with delegated rights: with a
// trust, an application credential, an EC2 credential, an OAuth access token or a
// method that is not known. Such a token must not make other tokens or
// credentials, because they could have more rights or a longer life than it.
func (t *Token) Delegated() bool { return delegatedRights(t.Payload) }

func delegatedRights(p *token.Payload) bool {
	return len(p.Methods) == 0 || p.TrustID != "" || p.ApplicationCredentialID != "" || p.AccessTokenID != "" || p.Thumbprint != "" ||
		slices.ContainsFunc(p.Methods, func(m string) bool { return !slices.Contains(primaryMethods, m) })
}
