package identity_test

import (
	"testing"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/token"
)

// TestDelegated lists what makes a token a delegated one.
func TestDelegated(t *testing.T) {
	for _, x := range []struct {
		name string
		p    token.Payload
		want bool
	}{
		{"password", token.Payload{Methods: []string{"password"}}, false},
		{"several factors", token.Payload{Methods: []string{"token", "password", "totp"}}, false},
		{"mapped", token.Payload{Methods: []string{"mapped"}}, false},
		{"no method", token.Payload{}, true},
		{"EC2 credential", token.Payload{Methods: []string{"ec2credential"}}, true},
		{"application credential", token.Payload{Methods: []string{"password", "application_credential"}}, true},
		{"OAuth 1", token.Payload{Methods: []string{"oauth1"}}, true},
		{"OAuth 2", token.Payload{Methods: []string{"oauth2_credential"}}, true},
		{"unknown method", token.Payload{Methods: []string{"password", "magic"}}, true},
		{"trust", token.Payload{Methods: []string{"password"}, TrustID: "t"}, true},
		{"access token", token.Payload{Methods: []string{"password"}, AccessTokenID: "a"}, true},
		{"credential", token.Payload{Methods: []string{"password"}, ApplicationCredentialID: "a"}, true},
		{"certificate", token.Payload{Methods: []string{"password"}, Thumbprint: "x"}, true},
	} {
		if got := (&identity.Token{Payload: &x.p}).Delegated(); got != x.want {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}
