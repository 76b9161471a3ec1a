package door

import "context"

// FailedLogin is what is counted of a caller who was not accepted. Both members are of
// small fixed sets, so that a caller cannot make series of metrics.
type FailedLogin struct {
	Credential string // the kind of what the caller has shown: one of the constants of this package
	Reason     string // the class of the reason: one of the constants of this package
}

// Kinds of credentials of a [FailedLogin].
const (
	CredentialKey         = "key"         // a key, or an Authorization header of an unknown form
	CredentialBasic       = "basic"       // a user and a password of HTTP Basic authentication
	CredentialOIDC        = "oidc_token"  // a token of OpenID Connect
	CredentialCertificate = "certificate" // a client certificate

	CredentialPassword    = "password"               // a password of Identity
	CredentialToken       = "token"                  // a token or a receipt of Identity
	CredentialApplication = "application_credential" // also over OAuth 2.0
	CredentialTOTP        = "totp"
	CredentialEC2         = "ec2" // a signature with an EC2 or S3 key
	CredentialOAuth1      = "oauth1"
	CredentialFederation  = "federation" // a token of an identity provider for Identity
)

// Classes of reasons of a [FailedLogin].
const (
	LoginRefused         = "refused"          // unknown, wrong, expired, disabled or locked
	LoginPasswordExpired = "password_expired" // right, but the password must be changed
	LoginMoreFactors     = "more_factors"     // right, but further methods are needed
	LoginExpired         = "expired"          // of a certificate: it is not valid now
	LoginAuthority       = "other_authority"  // of a certificate
)

type failedLoginKey struct{}

// WithFailedLogins returns a context whose [LoginFailed] calls f. The server sets it for
// doors with [Door.OwnAuthentication]. f may be called concurrently.
func WithFailedLogins(ctx context.Context, f func(FailedLogin)) context.Context {
	return context.WithValue(ctx, failedLoginKey{}, f)
}

// LoginFailed declares that a door with [Door.OwnAuthentication] has not accepted the
// caller of the request with this context. The server counts it. It does nothing for other
// contexts.
func LoginFailed(ctx context.Context, l FailedLogin) {
	if f, ok := ctx.Value(failedLoginKey{}).(func(FailedLogin)); ok {
		f(l)
	}
}
