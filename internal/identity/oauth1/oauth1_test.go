package oauth1

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// vector is a request that oauthlib signed, the library of Keystone and of its
// clients.
type vector struct{ Verb, URL, Consumer, Token, Authorization string }

func vectors(t testing.TB) (all []vector) {
	t.Helper()
	text, err := os.ReadFile("testdata/signatures.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) < 30 {
		t.Fatal("vectors:", err)
	}
	return all
}

func parse(t testing.TB, v vector) (*Request, error) {
	t.Helper()
	u, err := url.Parse(v.URL)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(v.Verb, u, v.Authorization)
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		r, err := parse(t, v)
		if err != nil {
			t.Errorf("%+v: %v", v, err)
			continue
		}
		for by, valid := range map[time.Duration]bool{0: true, 600 * time.Second: true, -600 * time.Second: true, 601 * time.Second: false, -601 * time.Second: false} {
			if err := r.Verify(v.Consumer, v.Token, r.Time().Add(by)); (err == nil) != valid || err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("%+v, %s later: %v", v, by, err)
			}
		}
		if r.Verify(v.Consumer+"x", v.Token, r.Time()) == nil || r.Verify(v.Consumer, v.Token+"x", r.Time()) == nil {
			t.Errorf("%+v: other secrets are accepted", v)
		}
	}
}

// TestChangedRequests changes one part of a signed request.
func TestChangedRequests(t *testing.T) {
	for _, v := range vectors(t) {
		for name, change := range map[string]func(*vector){
			"verb":      func(v *vector) { v.Verb = "PUT" },
			"host":      func(v *vector) { v.URL = strings.Replace(v.URL, "://", "://x.", 1) },
			"path":      func(v *vector) { p, q, _ := strings.Cut(v.URL, "?"); v.URL = p + "/x?" + q },
			"query":     func(v *vector) { v.URL += map[bool]string{true: "&", false: "?"}[strings.Contains(v.URL, "?")] + "x=1" },
			"parameter": func(v *vector) { v.Authorization += `, oauth_verifier2="x"` },
			"consumer": func(v *vector) {
				v.Authorization = strings.Replace(v.Authorization, `consumer_key="`, `consumer_key="0`, 1)
			},
			"nonce": func(v *vector) {
				v.Authorization = strings.Replace(v.Authorization, `oauth_nonce="`, `oauth_nonce="0`, 1)
			},
		} {
			x := v
			change(&x)
			r, err := parse(t, x)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := r.Verify(v.Consumer, v.Token, r.Time()); !errors.Is(err, ErrInvalid) {
				t.Errorf("changed %s of %+v: %v", name, v, err)
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	const good = `OAuth oauth_consumer_key="c", oauth_signature_method="HMAC-SHA1", oauth_signature="s", oauth_timestamp="1", oauth_nonce="n"`
	u := &url.URL{Scheme: "http", Host: "h", Path: "/p"}
	for _, text := range []string{good, "\t" + good + " ", strings.ToLower(good[:5]) + good[5:], good + ",", strings.Replace(good, ",", ", ,", 1), good + `, oauth_version="1.0"`, good + `,oauth_version=""`} {
		r, err := Parse("POST", u, text)
		if err != nil || !r.Time().Equal(time.Unix(1, 0)) || r.Get(Consumer) != "c" || r.Get("x") != "" {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
	}
	for text, want := range map[string]string{
		"":                         "does not begin with OAuth",
		"Basic " + good[6:]:        "does not begin with OAuth",
		"OAuth":                    "oauth_consumer_key is missing",
		good + `, oauth_nonce="m"`: `"oauth_nonce" occurs twice`,
		good + `, oauth_nonce="n"`: `"oauth_nonce" occurs twice`,
		strings.Replace(good, "oauth_consumer_key", "x", 1):               "oauth_consumer_key is missing",
		strings.Replace(good, `oauth_signature="s"`, `x="s"`, 1):          "oauth_signature is missing",
		strings.Replace(good, "oauth_timestamp", "x", 1):                  "oauth_timestamp is missing",
		strings.Replace(good, `"n"`, `""`, 1):                             "oauth_nonce is missing",
		strings.Replace(good, "HMAC-SHA1", "PLAINTEXT", 1):                `"PLAINTEXT": expected HMAC-SHA1`,
		strings.Replace(good, "oauth_signature_method", "x", 1):           "oauth_signature_method is missing",
		good + `, oauth_version="2.0"`:                                    `"2.0": expected 1.0`,
		strings.Replace(good, `"1"`, `"-1"`, 1):                           "expected seconds since 1970",
		strings.Replace(good, `"1"`, `"0x1"`, 1):                          "expected seconds since 1970",
		strings.Replace(good, `"1"`, `"1099511627776"`, 1):                "expected seconds since 1970",
		strings.ReplaceAll(good, `"`, ""):                                 "of the form name=",
		strings.Replace(good, `"c"`, `"c`, 1):                             "of the form name=",
		strings.Replace(good, `"c"`, `c"`, 1):                             "of the form name=",
		good + ", x":                                                      "of the form name=",
		strings.Replace(good, `"c"`, `"%g0"`, 1):                          "invalid escape",
		strings.Replace(good, `oauth_consumer_key=`, `%g0=`, 1):           "invalid escape",
		strings.Replace(good, `"n"`, `"`+strings.Repeat("n", 129)+`"`, 1): "nonce of 129 bytes: expected at most 128",
		good + strings.Repeat(" ", 8193-len(good)):                        "8193 bytes: expected at most 8192",
		good + manyParams(96):                                             "more than 100 parameters",
	} {
		if _, err := Parse("POST", u, text); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want %q", text, err, want)
		}
	}
	for name, text := range map[string]string{
		"long nonce": strings.Replace(good, `"n"`, `"`+strings.Repeat("n", 128)+`"`, 1), "parameters max": good + manyParams(95),
		"long header": good + `, x="` + strings.Repeat("x", 8192-len(good)-6) + `"`, "late": strings.Replace(good, `"1"`, `"1099511627775"`, 1),
	} {
		if _, err := Parse("POST", u, text); err != nil {
			t.Errorf("%s, at the bound: %v", name, err)
		}
	}
	for query, want := range map[string]string{"oauth_nonce=m": "expected it in the Authorization header", "a=%g0": "invalid escape", "%g0=a": "invalid escape", strings.Repeat("a=b&", 101): "more than 100 parameters"} {
		u.RawQuery = query
		if _, err := Parse("POST", u, good); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("query %.20q: %v, want %q", query, err, want)
		}
	}
	u.RawQuery = strings.Repeat("a=b&", 100)
	if _, err := Parse("POST", u, good); err != nil {
		t.Errorf("a query at the bound: %v", err)
	}
}

func manyParams(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,x` + strings.Repeat("y", i) + `=""`)
	}
	return b.String()
}

// FuzzParse reads random requests: no text may panic, and none fits secrets that
// did not sign it.
func FuzzParse(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.Verb, v.URL, v.Authorization)
	}
	f.Fuzz(func(t *testing.T, verb, address, authorization string) {
		u, err := url.Parse(address)
		if err != nil {
			return
		}
		r, err := Parse(verb, u, authorization)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Error(err)
			}
			return
		}
		if err := r.Verify("a secret that signed", "none of them", r.Time()); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	v := vectors(b)[1]
	for b.Loop() {
		r, err := parse(b, v)
		if err == nil {
			err = r.Verify(v.Consumer, v.Token, r.Time())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
