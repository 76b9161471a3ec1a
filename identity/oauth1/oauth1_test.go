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
		for by, valid := range map[time.Duration]bool{0: true, Window: true, -Window: true, Window + time.Second: false, -Window - time.Second: false} {
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
	if _, err := Parse("POST", u, good); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":          "",
		"Basic":          "Basic " + good[6:],
		"no parameters":  "OAuth",
		"twice":          good + `, oauth_nonce="m"`,
		"twice, equal":   good + `, oauth_nonce="n"`,
		"no consumer":    strings.Replace(good, "oauth_consumer_key", "x", 1),
		"no signature":   strings.Replace(good, `oauth_signature="s"`, `x="s"`, 1),
		"no time":        strings.Replace(good, "oauth_timestamp", "x", 1),
		"no nonce":       strings.Replace(good, `"n"`, `""`, 1),
		"PLAINTEXT":      strings.Replace(good, "HMAC-SHA1", "PLAINTEXT", 1),
		"no method":      strings.Replace(good, "oauth_signature_method", "x", 1),
		"version":        good + `, oauth_version="2.0"`,
		"negative time":  strings.Replace(good, `"1"`, `"-1"`, 1),
		"huge time":      strings.Replace(good, `"1"`, `"99999999999999999999"`, 1),
		"no quotes":      strings.ReplaceAll(good, `"`, ""),
		"open quote":     strings.Replace(good, `"c"`, `"c`, 1),
		"bad escape":     strings.Replace(good, `"c"`, `"%g0"`, 1),
		"long nonce":     strings.Replace(good, `"n"`, `"`+strings.Repeat("n", nonceMax+1)+`"`, 1),
		"long header":    good + strings.Repeat(" ", headerMax-len(good)+1),
		"parameters max": good + manyParams(paramsMax-4),
	} {
		if _, err := Parse("POST", u, text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"long nonce": strings.Replace(good, `"n"`, `"`+strings.Repeat("n", nonceMax)+`"`, 1), "parameters max": good + manyParams(paramsMax-5),
		"long header": good + `, x="` + strings.Repeat("x", headerMax-len(good)-6) + `"`,
	} {
		if _, err := Parse("POST", u, text); err != nil {
			t.Errorf("%s, at the bound: %v", name, err)
		}
	}
	for _, query := range []string{"oauth_nonce=m", "a=%g0", "%g0=a", strings.Repeat("a=b&", paramsMax+1)} {
		u.RawQuery = query
		if _, err := Parse("POST", u, good); !errors.Is(err, ErrMalformed) {
			t.Errorf("query %.20q: %v", query, err)
		}
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
