package jsonread

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// types are the values of the header typ that are accepted, in small letters. A token
// of another type is for another use: logout+jwt (OpenID Connect Back-Channel Logout),
// secevent+jwt (RFC 8417), dpop+jwt (RFC 9449). A value without a slash is short for
// one that begins with application/ (RFC 7515, section 4.1.9).
var types = []string{"jwt", "at+jwt"}

// timeMax bounds the claims that are times, in seconds: no clock shows later ones.
const timeMax = 1e15

// claims are the registered claims (RFC 7519, section 4.1), with what each one must be.
var claims = []struct {
	name, expected string
	fits           func(any) bool
}{
	{"iss", "a string", isText},
	{"sub", "a string", isText},
	{"aud", "a string or a list of strings", isTexts},
	{"exp", "a number of seconds", isTime},
	{"nbf", "a number of seconds", isTime},
	{"iat", "a number of seconds", isTime},
	{"jti", "a string", isText},
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}

func isTexts(v any) bool {
	list, ok := v.([]any)
	return isText(v) || ok && !slices.ContainsFunc(list, func(v any) bool { return !isText(v) })
}

func isTime(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	seconds, err := n.Float64()
	return err == nil && math.Abs(seconds) <= timeMax
}

// JWT returns the claims of a signed token: objects as map[string]any, numbers as
// [json.Number]. It fails
//   - if the header or the claims are not a JSON object, or if a name occurs twice in
//     an object;
//   - if the header has crit, because no extension is supported, or a typ of another
//     kind of token than "JWT" and "at+jwt";
//   - if a registered claim is not of its type, or if a name differs from that of one
//     only in case;
//   - if there is a claim events that is an object, which only tokens about events have.
//
// Its errors do not contain the token, but may contain names and types in it.
func JWT(text string) (map[string]any, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, errors.New("expected a signed JSON Web Token: three parts with dots between them")
	}
	header, err := readPart("header", parts[0])
	if err != nil {
		return nil, err
	}
	if err := checkHeader(header); err != nil {
		return nil, err
	}
	found, err := readPart("claims", parts[1])
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		if v, given := found[c.name]; given && !c.fits(v) {
			return nil, fmt.Errorf("claim %s: expected %s", c.name, c.expected)
		}
	}
	if _, about := found["events"].(map[string]any); about {
		return nil, errors.New("claim events: a token about events, such as a logout, authenticates no caller")
	}
	return found, checkNames(found)
}

func checkHeader(header map[string]any) error {
	if _, given := header["crit"]; given {
		return errors.New("header crit: no extension is supported")
	}
	for _, name := range []string{"alg", "kid", "typ"} {
		if v, given := header[name]; given && !isText(v) {
			return fmt.Errorf("header %s: expected a string", name)
		}
	}
	typ, given := header["typ"].(string)
	if given && !slices.Contains(types, strings.TrimPrefix(strings.ToLower(typ), "application/")) {
		return fmt.Errorf("header typ is %.64q: expected JWT or at+jwt, or none", typ)
	}
	return nil
}

// checkNames refuses a name that a reader which does not distinguish case takes for
// that of a registered claim.
func checkNames(found map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		for _, c := range claims {
			if name != c.name && strings.EqualFold(name, c.name) {
				return fmt.Errorf("claim %.64q: expected %q", name, c.name)
			}
		}
	}
	return nil
}

// readPart reads a part of a token, which what names in errors.
func readPart(what, part string) (map[string]any, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil || strings.ContainsAny(part, "\r\n") {
		return nil, fmt.Errorf("expected a signed JSON Web Token: the %s are not base64url", what)
	}
	r := New(text)
	values := r.Values()
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("expected a signed JSON Web Token: the %s: %w", what, err)
	}
	return values, nil
}
