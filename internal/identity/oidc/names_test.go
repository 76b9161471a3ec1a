package oidc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
)

// TestNames verifies tokens that one reader could take for another token than a second
// one, and tokens for other uses than authentication. All of them are signed by the
// provider.
func TestNames(t *testing.T) {
	p := issuers.NewProvider(t)
	now := time.Unix(2_000_000_000, 0)
	v := oidc.New([]oidc.Issuer{{URL: p.URL, Audiences: []string{"ostiary"}}}, oidc.Options{Clock: func() time.Time { return now }})
	header := func(rest string) string { return fmt.Sprintf(`{"alg":"RS256","kid":%q%s}`, p.KeyID(), rest) }
	claims := func(rest string) string { return fmt.Sprintf(`{"iss":%q,"sub":"u"%s}`, p.URL, rest) }
	const times = `,"exp":2000000060`
	good := claims(`,"aud":"ostiary"` + times)
	for _, c := range []struct{ header, claims, want string }{
		{header(""), good, ""},
		{header(`,"typ":"JWT"`), good, ""},
		{header(`,"typ":"at+jwt"`), good, ""},
		{header(`,"typ":"application/AT+jwt"`), good, ""},
		{header(""), claims(`,"aud":"other","AUD":"ostiary"` + times), `claim "AUD": expected "aud"`},
		{header(""), claims(`,"AUD":"ostiary"` + times), `claim "AUD": expected "aud"`},
		{header(""), claims(`,"aud":"other","aud":"ostiary"` + times), "duplicate member"},
		{header(""), claims(`,"aud":"ostiary","exp":1,"EXP":2000000060`), `claim "EXP": expected "exp"`},
		{header(""), claims(`,"aud":"ostiary","EXP":2000000060`), `claim "EXP": expected "exp"`},
		{header(""), claims(`,"aud":"ostiary","exp":"2000000060"`), "claim exp: expected a number of seconds"},
		{header(""), claims(`,"aud":"ostiary","exp":null`), "claim exp: expected a number of seconds"},
		{header(""), claims(`,"aud":"ostiary"` + times + `,"Nbf":0`), `claim "Nbf": expected "nbf"`},
		{header(""), claims(`,"Sub":"admin","aud":"ostiary"` + times), `claim "Sub": expected "sub"`},
		{header(""), strings.Replace(good, `"iss"`, `"ISS"`, 1), `unknown issuer|claim "ISS"`},
		{header(`,"typ":"logout+jwt"`), good, `header typ is "logout+jwt"`},
		{header(`,"typ":"secevent+jwt"`), good, `header typ is "secevent+jwt"`},
		{header(""), claims(`,"aud":"ostiary","events":{"http://schemas.openid.net/event/backchannel-logout":{}}` + times), "claim events"},
		{header(`,"crit":[]`), good, "header crit"},
	} {
		switch got, err := v.Verify(t.Context(), p.SignText(c.header, c.claims)); {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.header, c.claims, err)
		case c.want == "":
		case !errors.Is(err, oidc.ErrInvalid) || !slices.ContainsFunc(strings.Split(c.want, "|"), func(want string) bool { return strings.Contains(err.Error(), want) }):
			t.Errorf("%s %s is accepted as %+v, %v; want %q", c.header, c.claims, got, err, c.want)
		}
	}
	got, err := v.Verify(t.Context(), p.SignText(header(""), claims(`,"aud":["ostiary"],"number":12345678901234567890`+times)))
	if err != nil || !slices.Equal(got.Attributes["number"], []string{"12345678901234567890"}) {
		t.Errorf("a long number: %+v %v", got, err)
	}
}

// TestDocumentNames verifies a token while the documents of its provider have names that
// another reader takes for other ones. Their keys are not used.
func TestDocumentNames(t *testing.T) {
	p := issuers.NewProvider(t)
	now := time.Unix(2_000_000_000, 0)
	text := p.Sign(map[string]any{"iss": p.URL, "aud": "k", "exp": now.Unix() + 1000}, -1)
	verify := func() error {
		v := oidc.New([]oidc.Issuer{{URL: p.URL, Audiences: []string{"k"}}}, oidc.Options{Clock: func() time.Time { return now }})
		_, err := v.Verify(t.Context(), text)
		return err
	}
	for _, c := range []struct {
		keys     bool
		old, new string
		want     string
	}{
		{false, `"jwks_uri"`, `"JWKS_URI"`, "JWKS_URI: unknown member: expected jwks_uri"},
		{false, `{`, `{"issuer":"https://a.example",`, "duplicate member"},
		{true, `"keys"`, `"Keys"`, "Keys: unknown member: expected keys"},
		{true, `{"keys"`, `{"keys":[],"keys"`, "duplicate member"},
		{true, `"kty"`, `"kty":"oct","Kty"`, "keys[0].Kty: unknown member: expected kty"},
		{true, `"use"`, `"use":"enc","use"`, "duplicate member"},
		{true, `{"keys"`, `{"more":{"KEYS":1},"keys"`, ""},
	} {
		document := strings.Replace(p.Document(c.keys), c.old, c.new, 1)
		p.Answer(c.keys, document)
		switch err := verify(); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", document, err)
		case c.want == "":
		case err == nil || errors.Is(err, oidc.ErrInvalid) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", document, err, c.want)
		}
		p.Answer(c.keys, "")
	}
}
