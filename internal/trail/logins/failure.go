package logins

import "context"

// Failure is what is counted of a caller who was not accepted. Both members are of
// small fixed sets, so that a caller cannot make series of metrics.
type Failure struct {
	Credential string // the kind of what the caller has shown: one of the constants of this package
	Reason     string // the class of the reason: one of the constants of this package
}

// Kinds of credentials of a [Failure].
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

// Classes of reasons of a [Failure].
const (
	Refused         = "refused"          // unknown, wrong, expired, disabled or locked
	PasswordExpired = "password_expired" // right, but the password must be changed
	MoreFactors     = "more_factors"     // right, but further methods are needed
	Expired         = "expired"          // of a certificate: it is not valid now
	Authority       = "other_authority"  // of a certificate
)

type failuresKey struct{}

// WithFailures returns a context whose [Fail] calls f. The server sets it for doors that
// authenticate their callers. f may be called concurrently.
func WithFailures(ctx context.Context, f func(Failure)) context.Context {
	return context.WithValue(ctx, failuresKey{}, f)
}

// Fail declares that a door which authenticates its callers has not accepted the caller of
// the request with this context. The server counts it. It does nothing for other contexts.
func Fail(ctx context.Context, l Failure) {
	if f, ok := ctx.Value(failuresKey{}).(func(Failure)); ok {
		f(l)
	}
}
