package jsonread_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

func token(header, claims string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".AA"
}

// TestHeader reads headers. An error is given by a part of its text; "" is none.
func TestHeader(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		`{"alg":"RS256"}`:                              "",
		`{"alg":"RS256","typ":"JWT"}`:                  "",
		`{"typ":"jwt"}`:                                "",
		`{"typ":"at+jwt"}`:                             "",
		`{"typ":"AT+JWT"}`:                             "",
		`{"typ":"application/at+jwt"}`:                 "",
		`{"typ":"Application/JWT"}`:                    "",
		`{"typ":""}`:                                   `header typ is ""`,
		`{"typ":"logout+jwt"}`:                         `header typ is "logout+jwt": expected JWT or at+jwt, or none`,
		`{"typ":"Logout+JWT"}`:                         `header typ is "Logout+JWT"`,
		`{"typ":"application/logout+jwt"}`:             "header typ is",
		`{"typ":"secevent+jwt"}`:                       "header typ is",
		`{"typ":"dpop+jwt"}`:                           "header typ is",
		`{"typ":"application/application/jwt"}`:        "header typ is",
		`{"typ":["JWT"]}`:                              "header typ: expected a string",
		`{"typ":null}`:                                 "header typ: expected a string",
		`{"kid":1}`:                                    "header kid: expected a string",
		`{"alg":null}`:                                 "header alg: expected a string",
		`{"crit":[]}`:                                  "header crit: no extension is supported",
		`{"crit":["exp"]}`:                             "header crit",
		`{"crit":null}`:                                "header crit",
		`{"typ":"logout+jwt","typ":"JWT"}`:             "duplicate member",
		"{\"typ\":\"logout+jwt\",\"ty\\u0070\":\"J\"}": "duplicate member",
		`["JWT"]`:                                      "expected an object",
		`{} {}`:                                        "unexpected data",
		``:                                             "expected an object",
	} {
		switch _, err := jsonread.JWT(token(header, "{}")); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", header, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", header, err, want)
		}
	}
}

// TestClaims reads claims, as TestHeader does headers.
func TestClaims(t *testing.T) {
	t.Parallel()
	for claims, want := range map[string]string{
		`{"iss":"i","sub":"s","aud":["a","b"],"exp":1.5,"nbf":0,"iat":-1e3,"jti":"j","Name":{"AUD":1},"x":null}`: "",
		`{"aud":"a"}`:                       "",
		`{"aud":[]}`:                        "",
		`{"aud":"other","AUD":"a"}`:         `claim "AUD": expected "aud"`,
		`{"AUD":"a"}`:                       `claim "AUD"`,
		`{"exp":1,"Exp":2}`:                 `claim "Exp"`,
		`{"\u017fub":"s"}`:                  "expected \"sub\"", // a letter that becomes an s in capitals
		`{"exp":1,"exp":2}`:                 "duplicate member",
		"{\"exp\":1,\"e\\u0078p\":2}":       "duplicate member",
		`{"a":{"b":1,"b":2}}`:               "duplicate member",
		`{"exp":"1"}`:                       "claim exp: expected a number of seconds",
		`{"exp":null}`:                      "claim exp",
		`{"exp":1e16}`:                      "claim exp",
		`{"exp":-1e400}`:                    "claim exp",
		`{"nbf":"1"}`:                       "claim nbf",
		`{"nbf":null}`:                      "claim nbf",
		`{"iat":true}`:                      "claim iat",
		`{"sub":1}`:                         "claim sub: expected a string",
		`{"sub":null}`:                      "claim sub",
		`{"iss":["i"]}`:                     "claim iss",
		`{"jti":1}`:                         "claim jti",
		`{"aud":1}`:                         "claim aud",
		`{"aud":["a",null]}`:                "claim aud",
		`{"aud":{"a":1}}`:                   "claim aud",
		`{"events":{"http://e/logout":{}}}`: "claim events",
		`{"events":["a"]}`:                  "",
		`{"a":"` + "\xff" + `"}`:            "invalid UTF-8",
		`null`:                              "expected an object",
		strings.Repeat(`{"a":`, 70) + strings.Repeat("}", 70): "nested",
	} {
		switch _, err := jsonread.JWT(token(`{"alg":"x"}`, claims)); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", claims, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", claims, err, want)
		}
	}
}

// TestForm reads texts that are not tokens. No error contains the text.
func TestForm(t *testing.T) {
	t.Parallel()
	good := token("{}", "{}")
	if c, err := jsonread.JWT(good); err != nil || len(c) != 0 {
		t.Fatal(c, err)
	}
	for _, text := range []string{"", "x", "a.b", "a.b.c.d.e", good + ".", "." + good, "=" + good, good[:3] + "\n" + good[3:], "e30=.e30.", "e31.e30.", "e3 0.e30.", "e30.e.x"} {
		if _, err := jsonread.JWT(text); err == nil || len(text) > 8 && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
