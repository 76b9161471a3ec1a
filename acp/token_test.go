package acp_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/acp"
)

// seeded returns the same key each time.
func seeded(t testing.TB, typ acp.KeyType, n byte) acp.PrivateKey {
	t.Helper()
	return must(acp.NewPrivateKey(typ, bytes.Repeat([]byte{n}, 32)))(t)
}

var tokenNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestToken(t *testing.T) {
	t.Parallel()
	for _, typ := range []acp.KeyType{acp.KeySecp256k1, acp.KeyEd25519} {
		key := seeded(t, typ, 7)
		token := must(key.Token("Host.Example", tokenNow, time.Minute, "source1abc"))(t)
		check := acp.TokenCheck{Audience: "host.example", Now: tokenNow.Add(time.Second)}
		id := must(acp.VerifyToken(token, check))(t)
		if id.DID != key.Public().DID() || id.AuthorizedAccount != "source1abc" || !id.Expires.Equal(tokenNow.Add(time.Minute)) {
			t.Errorf("%s: %+v", typ, id)
		}
		if err := acp.ValidateDID(id.DID); err != nil {
			t.Error(err)
		}
		for _, c := range []struct {
			name  string
			check acp.TokenCheck
			kind  error
		}{
			{"audience", acp.TokenCheck{Audience: "other", Now: check.Now}, acp.ErrTokenAudience},
			{"no audience", acp.TokenCheck{Now: check.Now}, acp.ErrTokenAudience},
			{"no time", acp.TokenCheck{Audience: "host.example"}, acp.ErrTokenAudience},
			{"expired", acp.TokenCheck{Audience: "host.example", Now: tokenNow.Add(time.Minute)}, acp.ErrTokenTime},
			{"not yet", acp.TokenCheck{Audience: "host.example", Now: tokenNow.Add(-time.Second)}, acp.ErrTokenTime},
		} {
			_, err := acp.VerifyToken(token, c.check)
			if wantKind(t, err, c.kind); err != nil {
				wantKind(t, err, acp.ErrUnauthenticated)
			}
		}
		last := acp.TokenCheck{Audience: "host.example", Now: tokenNow.Add(time.Minute - time.Millisecond)}
		must(acp.VerifyToken(token, last))(t)
		last.Now, last.Leeway = tokenNow.Add(time.Minute+time.Second-time.Millisecond), time.Second
		must(acp.VerifyToken(token, last))(t)
		flips(t, token, check)
		if s := fmt.Sprintf("%v %+v %#v %s", key, key, key, key); strings.Count(s, "redacted") != 4 {
			t.Error("a key prints itself")
		}
		if _, err := json.Marshal(key); err == nil {
			t.Error("a key is marshalled")
		}
	}
}

// flips changes each character of a token.
func flips(t *testing.T, token string, check acp.TokenCheck) {
	t.Helper()
	for i := range token {
		for _, c := range []byte{'A', 'b', '.', '='} {
			forged := token[:i] + string(c) + token[i+1:]
			if forged == token {
				continue
			}
			if _, err := acp.VerifyToken(forged, check); err == nil {
				t.Fatalf("forged at %d: %s", i, forged)
			}
		}
	}
}

// TestTokenBytesMax verifies a token of the greatest length, which is refused for
// what it contains, and a longer one, which is refused for its length.
func TestTokenBytesMax(t *testing.T) {
	t.Parallel()
	for _, n := range []int{acp.TokenBytesMax, acp.TokenBytesMax + 1} {
		_, err := acp.VerifyToken(strings.Repeat("a", n), acp.TokenCheck{Audience: "host.example", Now: tokenNow})
		wantKind(t, err, acp.ErrTokenMalformed)
		if tooLong := strings.Contains(err.Error(), "8193 bytes, expected at most 8192"); tooLong != (n > 8192) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestForgedTokens signs what a forger would.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	key, other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)), seeded(t, acp.KeyEd25519, 8)
	mine := seeded(t, acp.KeyEd25519, 7).Public()
	enc := base64.RawURLEncoding.EncodeToString
	good := map[string]any{"sub": fmt.Sprintf("%x", mine.Bytes), "iss": mine.DID(), "key_type": "ed25519",
		"aud": "h", "exp": tokenNow.Add(time.Hour).Unix(), "nbf": tokenNow.Unix()}
	sign := func(header string, change func(map[string]any)) string {
		claims := map[string]any{}
		for k, v := range good {
			claims[k] = v
		}
		change(claims)
		body := must(json.Marshal(claims))(t)
		text := enc([]byte(header)) + "." + enc(body)
		return text + "." + enc(ed25519.Sign(key, []byte(text)))
	}
	const header = `{"alg":"EdDSA"}`
	set := func(k string, v any) func(map[string]any) { return func(m map[string]any) { m[k] = v } }
	drop := func(k string) func(map[string]any) { return func(m map[string]any) { delete(m, k) } }
	check := acp.TokenCheck{Audience: "h", Now: tokenNow}
	must(acp.VerifyToken(sign(header, func(map[string]any) {}), check))(t)
	for _, c := range []struct {
		name, token string
		kind        error
	}{
		{"none", sign(`{"alg":"none"}`, set("x", 1)), acp.ErrTokenMalformed},
		{"hmac", sign(`{"alg":"HS256"}`, set("x", 1)), acp.ErrTokenMalformed},
		{"other algorithm", sign(`{"alg":"ES256K"}`, set("x", 1)), acp.ErrTokenIdentity},
		{"critical", sign(`{"alg":"EdDSA","crit":["x"]}`, set("x", 1)), acp.ErrTokenMalformed},
		{"no extensions", sign(`{"alg":"EdDSA","crit":[]}`, set("x", 1)), acp.ErrTokenMalformed},
		{"two algorithms", sign(`{"alg":"none","alg":"EdDSA"}`, set("x", 1)), acp.ErrTokenMalformed},
		{"a logout", sign(`{"alg":"EdDSA","typ":"logout+jwt"}`, set("x", 1)), acp.ErrTokenMalformed},
		{"two audiences", sign(header, set("AUD", "other")), acp.ErrTokenMalformed},
		{"expiry a text", sign(header, set("exp", "1")), acp.ErrTokenMalformed},
		{"no key type", sign(header, drop("key_type")), acp.ErrTokenMalformed},
		{"key type a number", sign(header, set("key_type", 1)), acp.ErrTokenMalformed},
		{"other key type", sign(header, set("key_type", "secp256k1")), acp.ErrTokenIdentity},
		{"another's identity", sign(header, set("iss", other.Public().DID())), acp.ErrTokenIdentity},
		{"another's key", sign(header, func(m map[string]any) {
			m["iss"], m["sub"] = other.Public().DID(), fmt.Sprintf("%x", other.Public().Bytes)
		}), acp.ErrTokenSignature},
		{"no key", sign(header, set("sub", "00")), acp.ErrTokenIdentity},
		{"no expiry", sign(header, drop("exp")), acp.ErrTokenMalformed},
		{"no audience", sign(header, drop("aud")), acp.ErrTokenMalformed},
		{"audience in capitals", sign(header, func(m map[string]any) { delete(m, "aud"); m["AUD"] = "h" }), acp.ErrTokenMalformed},
		{"other audiences", sign(header, set("aud", []string{"a", "b"})), acp.ErrTokenAudience},
		{"time too large", sign(header, set("exp", 1e300)), acp.ErrTokenMalformed},
		{"two parts", "a.b", acp.ErrTokenMalformed},
		{"empty", "", acp.ErrTokenMalformed},
		{"too long", strings.Repeat("a", acp.TokenBytesMax+1), acp.ErrTokenMalformed},
	} {
		_, err := acp.VerifyToken(c.token, check)
		if wantKind(t, err, c.kind); t.Failed() {
			t.Fatal(c.name)
		}
	}
}

// TestDIDs: keys that are points of their curves, and nothing that only looks
// like one.
// TestForgedSignatures replaces the signature of a token by ones that are not in the
// form of ES256K: a number of ECDSA is from 1 to the order of the curve minus 1.
func TestForgedSignatures(t *testing.T) {
	t.Parallel()
	token := must(seeded(t, acp.KeySecp256k1, 7).Token("h", tokenNow, time.Minute, ""))(t)
	text := token[:strings.LastIndexByte(token, '.')+1]
	good := must(base64.RawURLEncoding.DecodeString(token[len(text):]))(t)
	zero, ones := make([]byte, 32), bytes.Repeat([]byte{0xff}, 32)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, signature := range map[string][]byte{
		"empty": nil, "63 bytes": good[:63], "65 bytes": join(good, zero[:1]), "r is 0": join(zero, good[32:]), "s is 0": join(good[:32], zero), "both are 0": join(zero, zero),
		"r is too large": join(ones, good[32:]), "s is too large": join(good[:32], ones), "swapped": join(good[32:], good[:32]),
	} {
		_, err := acp.VerifyToken(text+base64.RawURLEncoding.EncodeToString(signature), acp.TokenCheck{Audience: "h", Now: tokenNow})
		if err == nil {
			t.Errorf("%s: the token is accepted", name)
		}
		wantKind(t, err, acp.ErrUnauthenticated)
	}
	must(acp.VerifyToken(text+base64.RawURLEncoding.EncodeToString(good), acp.TokenCheck{Audience: "h", Now: tokenNow}))(t)
}

func TestDIDs(t *testing.T) {
	t.Parallel()
	uncompressed := seeded(t, acp.KeySecp256k1, 9).Public().DID()
	for _, did := range []string{alice, bob, carol, uncompressed, "did:web:example.com", "did:example:a%20b:c", "did:user:bob"} {
		if err := acp.ValidateDID(did); err != nil {
			t.Error(err)
		}
	}
	p256 := "did:key:zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169"
	off := acp.PublicKey{Type: acp.KeyEd25519, Bytes: append([]byte{2}, make([]byte, 31)...)}.DID()
	big := acp.PublicKey{Type: acp.KeyEd25519, Bytes: bytes.Repeat([]byte{0xff}, 32)}.DID()
	short := acp.PublicKey{Type: acp.KeyEd25519, Bytes: make([]byte, 31)}.DID()
	hybrid := seeded(t, acp.KeySecp256k1, 9).Public()
	hybrid.Bytes[0] = 6
	notOnCurve := acp.PublicKey{Type: acp.KeySecp256k1, Bytes: append([]byte{2}, bytes.Repeat([]byte{0xff}, 32)...)}.DID()
	for _, did := range []string{"", "x:y:z", "nodid", "did:", "did:key", "did:key:", "did:key:z", "did:key:z0OIl", "did:key:u" + alice[9:],
		alice + "x", alice[:len(alice)-1], p256, off, big, short, hybrid.DID(), notOnCurve, "did:Web:x", "did:web:a b", "did:web:a#b",
		"did:web:", "did:web:a:", "did:web:%2", "*", "did:web:" + strings.Repeat("x", 1024)} {
		wantKind(t, acp.ValidateDID(did), acp.ErrInvalidDID)
	}
}

// TestCurve compares the test for points with the verification of
// a signature. The standard library refuses to verify with a key that is no point
// of the curve. The public key of every seed is a point.
func TestCurve(t *testing.T) {
	t.Parallel()
	const seed = 1
	rnd := rand.New(rand.NewPCG(seed, seed))
	points := 0
	for range 200 {
		raw := make([]byte, 32)
		for i := range raw {
			raw[i] = byte(rnd.Uint32())
		}
		own := ed25519.NewKeyFromSeed(raw).Public().(ed25519.PublicKey)
		if err := acp.ValidateDID(acp.PublicKey{Type: acp.KeyEd25519, Bytes: own}.DID()); err != nil {
			t.Fatal(err)
		}
		if acp.ValidateDID(acp.PublicKey{Type: acp.KeyEd25519, Bytes: raw}.DID()) == nil {
			points++
		}
	}
	if points < 70 || points > 130 { // half of all y have an x
		t.Errorf("seed %d: %d of 200", seed, points)
	}
}

func FuzzVerifyToken(f *testing.F) {
	key := seeded(f, acp.KeyEd25519, 7)
	token := must(key.Token("h", tokenNow, time.Minute, ""))(f)
	f.Add(token)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := acp.VerifyToken(text, acp.TokenCheck{Audience: "h", Now: tokenNow})
		if err == nil && acp.ValidateDID(id.DID) != nil {
			t.Errorf("%q: %v", text, id)
		}
	})
}

func FuzzDID(f *testing.F) {
	for _, did := range []string{alice, carol, "did:web:example.com", "did:key:z"} {
		f.Add(did)
	}
	f.Fuzz(func(t *testing.T, did string) {
		key, err := acp.ParseKeyDID(did)
		if err == nil && (key.DID() != did || acp.ValidateDID(did) != nil) {
			t.Errorf("%q is not %q", did, key.DID())
		}
	})
}
