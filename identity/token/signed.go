package token

import (
	"crypto"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Signed encodes and decodes tokens as signed JSON Web Tokens, like Keystone's
// provider "jws". It is immutable and may be used concurrently.
type Signed struct {
	// Key signs tokens. Its type must fit Algorithm. It is not needed to decode.
	Key crypto.Signer
	// Algorithm signs tokens: "ES256", "ES384", "ES512" or "EdDSA". The default is
	// "ES256".
	Algorithm string
	// Public are the keys that verify tokens. Each key verifies only tokens of its
	// own type.
	Public []crypto.PublicKey
	// Accepted are the algorithms that Decode accepts. The default is ES256 only.
	Accepted []string
}

// claims are the claims of a token. Keystone leaves out those that are empty.
type claims struct {
	jwt.RegisteredClaims
	Methods       []string `json:"openstack_methods"`
	AuditIDs      []string `json:"openstack_audit_ids"`
	System        string   `json:"openstack_system,omitempty"`
	DomainID      string   `json:"openstack_domain_id,omitempty"`
	ProjectID     string   `json:"openstack_project_id,omitempty"`
	TrustID       string   `json:"openstack_trust_id,omitempty"`
	GroupIDs      []string `json:"openstack_group_ids,omitempty"`
	IDP           string   `json:"openstack_idp_id,omitempty"`
	Protocol      string   `json:"openstack_protocol_id,omitempty"`
	AccessTokenID string   `json:"openstack_access_token_id,omitempty"`
	CredentialID  string   `json:"openstack_app_cred_id,omitempty"`
	Thumbprint    string   `json:"openstack_thumbprint,omitempty"`
}

// algorithms are the algorithms that a configuration may name.
var algorithms = []string{"ES256", "ES384", "ES512", "EdDSA"}

func (s *Signed) algorithm() string {
	if s.Algorithm == "" {
		return algorithms[0]
	}
	return s.Algorithm
}

// Encode returns the text of a token. Both times are stored in whole seconds. It
// fails if there is no key, or if the key does not fit the algorithm.
func (s *Signed) Encode(p *Payload, issued time.Time) (string, error) {
	if s.Key == nil || !slices.Contains(algorithms, s.algorithm()) {
		return "", fmt.Errorf("cannot sign a token with algorithm %q: expected a private key and one of %q", s.algorithm(), algorithms)
	}
	c := claims{
		RegisteredClaims: jwt.RegisteredClaims{Subject: p.UserID, IssuedAt: jwt.NewNumericDate(issued), ExpiresAt: jwt.NewNumericDate(p.Expires)},
		Methods:          p.Methods, AuditIDs: p.AuditIDs, System: p.System, DomainID: p.DomainID, ProjectID: p.ProjectID,
		TrustID: p.TrustID, GroupIDs: p.GroupIDs, IDP: p.IdentityProvider, Protocol: p.Protocol,
		AccessTokenID: p.AccessTokenID, CredentialID: p.ApplicationCredentialID, Thumbprint: p.Thumbprint,
	}
	text, err := jwt.NewWithClaims(jwt.GetSigningMethod(s.algorithm()), c).SignedString(s.Key)
	if err != nil {
		return "", fmt.Errorf("cannot sign a token with algorithm %q: %w", s.algorithm(), err)
	}
	return text, nil
}

// Decode verifies a token and returns its content and the time of creation. It
// does not check whether the token has expired. It fails with [ErrInvalid].
func (s *Signed) Decode(text string) (*Payload, time.Time, error) {
	if len(text) > TextMax {
		return nil, time.Time{}, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrInvalid, len(text), TextMax)
	}
	accepted := s.Accepted
	if accepted == nil {
		accepted = algorithms[:1]
	}
	parser := jwt.NewParser(jwt.WithValidMethods(accepted), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())
	var c claims
	keys := func(*jwt.Token) (any, error) {
		set := jwt.VerificationKeySet{}
		for _, k := range s.Public {
			set.Keys = append(set.Keys, k)
		}
		return set, nil
	}
	if _, err := parser.ParseWithClaims(text, &c, keys); err != nil {
		return nil, time.Time{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.Subject == "" || c.IssuedAt == nil || c.ExpiresAt == nil {
		return nil, time.Time{}, fmt.Errorf("%w: expected the claims sub, iat and exp", ErrInvalid)
	}
	return c.payload(), c.IssuedAt.UTC(), nil
}

func (c *claims) payload() *Payload {
	return &Payload{
		UserID: c.Subject, Methods: c.Methods, ProjectID: c.ProjectID, DomainID: c.DomainID, System: c.System,
		TrustID: c.TrustID, GroupIDs: c.GroupIDs, IdentityProvider: c.IDP, Protocol: c.Protocol,
		AccessTokenID: c.AccessTokenID, ApplicationCredentialID: c.CredentialID, Thumbprint: c.Thumbprint,
		Expires: c.ExpiresAt.UTC(), AuditIDs: c.AuditIDs,
	}
}
