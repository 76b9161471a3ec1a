package callers

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/authz"
)

// Match identifies callers by what their tokens of OpenID Connect assert, or by a name in
// their certificates.
type Match struct {
	// Issuer is the URL of the provider.
	Issuer string `json:"issuer,omitempty"`
	// Claim is the name of a claim, or, if it begins with a slash, the path to a claim
	// inside of others as a JSON Pointer (RFC 6901): "/realm_access/roles" is the member
	// roles of the claim realm_access. A pointer is used, because names of claims contain
	// dots and colons. Value is the text that the claim must be, or that its list must
	// contain.
	Claim string `json:"claim,omitempty"`
	Value string `json:"value,omitempty"`
	// Certificate is a name as [CertificateNames] returns them, or the beginning of URIs
	// with a star behind it. With it, the other fields are empty.
	Certificate string `json:"certificate,omitempty"`
}

// identity is a text that no other match has.
func (m *Match) identity() string {
	if m.Certificate != "" {
		return fmt.Sprintf("certificate %q", m.Certificate)
	}
	return fmt.Sprintf("%q %q %q", m.Issuer, m.Claim, m.Value)
}

// In returns what the claims of a token have for m.Claim, or nil if they have nothing, or
// if a part of the path is no object.
func (m *Match) In(claims map[string]any) any {
	path, nested := strings.CutPrefix(m.Claim, "/")
	if !nested {
		return claims[m.Claim]
	}
	var found any = claims
	for part := range strings.SplitSeq(path, "/") {
		object, ok := found.(map[string]any)
		if !ok {
			return nil
		}
		found = object[pointerEscapes.Replace(part)]
	}
	return found
}

// pointerEscapes replaces the escapes of a JSON Pointer. A replacer replaces no text twice,
// so that "~01" becomes "~1".
var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// valid returns the match with its certificate in the form of [CertificateNames]. It fails
// if only a part of the match is set, and for invalid names.
func (m Match) valid() (Match, error) {
	switch {
	case m == (Match{}):
		return m, nil
	case m.Certificate == "":
		return m, m.validToken()
	case m != Match{Certificate: m.Certificate}:
		return m, invalid("a key matches a certificate, or a token with an issuer, a claim and a value, not both")
	}
	name, err := certificatePattern(m.Certificate)
	return Match{Certificate: name}, err
}

// validToken fails if only a part of the match is set, or if the path of a claim is no JSON
// Pointer.
func (m *Match) validToken() error {
	for name, text := range map[string]string{"issuer": m.Issuer, "claim": m.Claim, "value": m.Value} {
		switch {
		case text == "":
			return invalid("the match of a key has no %s: expected an issuer, a claim and its value", name)
		case len(text) > authz.NameBytesMax:
			return &authz.BoundError{Name: "NameBytesMax", Max: authz.NameBytesMax, Got: int64(len(text))}
		}
	}
	path, nested := strings.CutPrefix(m.Claim, "/")
	if !nested {
		return nil
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(part), "~") {
			return invalid("invalid path of a claim %.100q: expected names with a slash in front of each, for example /realm_access/roles, and ~1 for a slash in a name, ~0 for a tilde", m.Claim)
		}
	}
	return nil
}

// warnings returns what the maker of the match may have overlooked.
func (m *Match) warnings() []string {
	if strings.Contains(m.Claim, ".") && !strings.Contains(m.Claim, "/") {
		return []string{"the claim " + m.Claim + " is one name with a dot: the path to a claim inside of another one is /" + strings.ReplaceAll(m.Claim, ".", "/")}
	}
	return nil
}
