// Package token reads and writes the Fernet tokens of OpenStack Keystone, byte
// by byte as Keystone does. Its main types are [Payload] and [Fernet]. It also
// keeps the repository of Fernet keys, which Keystone can share.
//
// A token names a user and a scope. It contains neither roles nor a catalog:
// they are computed whenever a token is validated. This package decides nothing
// about a token apart from its authenticity. Package identity checks expiry,
// revocation and whether the user exists.
package token

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrInvalid is the cause of every failed [Fernet.Decode]: the text is not a
// token, or no key made it. The error never contains the token.
var ErrInvalid = errors.New("invalid token")

// TextMax is the largest number of bytes of a token. Longer texts are not read.
const TextMax = 8 << 10

// SystemAll is the only system scope.
const SystemAll = "all"

// Payload is the content of a token. Which fields are set follows from the scope
// and from the methods; see [Payload.Version].
type Payload struct {
	// UserID is the id of the user.
	UserID string
	// Methods are the methods of authentication, in the order of [Methods].
	Methods []string
	// ProjectID is the project that the token is scoped to; "" if there is none.
	ProjectID string
	// DomainID is the domain that the token is scoped to; "" if there is none.
	DomainID string
	// System is [SystemAll] for a token with system scope; otherwise "".
	System string
	// TrustID is the trust that the token was made with; "" if there is none.
	TrustID string
	// GroupIDs are the groups of a federated user.
	GroupIDs []string
	// IdentityProvider is the identity provider of a federated user.
	IdentityProvider string
	// Protocol is the protocol of a federated user.
	Protocol string
	// AccessTokenID is the OAuth 1 access token that the token was made with.
	AccessTokenID string
	// ApplicationCredentialID is the application credential that the token was
	// made with.
	ApplicationCredentialID string
	// Thumbprint is the thumbprint of the client's certificate (OAuth 2 with
	// mutual TLS).
	Thumbprint string
	// Expires is the end of the token's life. Fernet tokens keep microseconds.
	Expires time.Time
	// AuditIDs are the token's own audit id and, if it was made from another
	// token, the audit id of the first token of the chain. Each is 16 bytes in
	// unpadded base64url.
	AuditIDs []string
}

// Methods is the ordered list of authentication methods of a deployment
// ([auth] methods in Keystone). A Fernet token stores methods as a bit mask of
// this order, so all servers that share keys need the same list.
type Methods []string

// DefaultMethods returns Keystone's default list.
func DefaultMethods() Methods {
	return Methods{"external", "password", "token", "oauth1", "mapped", "application_credential", "ec2credential"}
}

// methodsMax is the largest number of methods, because a token has a bit for each.
const methodsMax = 63

// Validate fails if the list contains a method twice, a method without a name, or
// more methods than a token can store. Nil is valid: it means [DefaultMethods].
func (m Methods) Validate() error {
	if len(m) > methodsMax {
		return fmt.Errorf("%d methods of authentication: expected at most %d", len(m), methodsMax)
	}
	for i, name := range m {
		if name == "" || slices.Contains(m[:i], name) {
			return fmt.Errorf("invalid list of authentication methods %q: expected different names that are not empty", []string(m))
		}
	}
	return nil
}
