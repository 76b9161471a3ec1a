package ec2

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"time"
)

// vectors are signatures that Keystone 30.0.0 computed with its own client
// library, of random requests.
type vectors struct {
	Requests []struct {
		Secret, Signature, Host, Verb, Path string
		Params, Headers                     map[string]string
		BodyHash                            string `json:"body_hash"`
	}
	S3 []struct{ Secret, Token, Signature string }
}

func load(t testing.TB) (v vectors) {
	t.Helper()
	text, err := os.ReadFile("testdata/signatures.json")
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil || len(v.Requests) < 50 || len(v.S3) < 10 {
		t.Fatal("vectors:", err)
	}
	return v
}

// noon is a time in the window of all vectors.
func noon(r *Request) time.Time {
	text := r.Params[paramTimestamp] + r.amz("Date")
	for _, form := range timeForms {
		if at, err := time.Parse(form, text); err == nil {
			return at
		}
	}
	return time.Time{}
}

func requests(t testing.TB) (all []Request, secrets []string) {
	for _, x := range load(t).Requests {
		all = append(all, Request{x.Signature, x.Host, x.Verb, x.Path, x.Params, x.Headers, x.BodyHash})
		secrets = append(secrets, x.Secret)
	}
	return all, secrets
}

func TestVectors(t *testing.T) {
	versions := map[string]int{}
	all, secrets := requests(t)
	for i, r := range all {
		if err := r.Verify(secrets[i], noon(&r)); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
		if err := r.Verify(secrets[i]+"x", noon(&r)); !errors.Is(err, ErrInvalid) {
			t.Errorf("another secret, %+v: %v", r, err)
		}
		versions[r.version()]++
	}
	if len(versions) != 4 {
		t.Error("versions:", versions)
	}
	for _, x := range load(t).S3 {
		if err := VerifyS3(x.Secret, x.Token, x.Signature); err != nil {
			t.Errorf("S3, %s: %v", x.Token, err)
		}
	}
}

// TestChangedRequests changes one part of a signed request. The signature must
// not fit any more, unless its version does not sign the part.
func TestChangedRequests(t *testing.T) {
	all, secrets := requests(t)
	for i, r := range all {
		for name, part := range map[string]struct {
			change   func(*Request)
			versions string // that sign the part; P is a POST of version 4
		}{
			"signature": {func(r *Request) { r.Signature = "A" + r.Signature[:len(r.Signature)-1] }, "0124P"},
			"none":      {func(r *Request) { r.Signature = "" }, "0124P"},
			"verb":      {func(r *Request) { r.Verb = "PUT" }, "24P"},
			"path":      {func(r *Request) { r.Path += "x" }, "24P"},
			"host":      {func(r *Request) { r.Host = "evil.example.com" }, "2"},
			"header":    {func(r *Request) { r.Headers["Host"] = "evil.example.com" }, "4P"},
			"parameter": {func(r *Request) { r.Params["Extra"] = "1" }, "124"},
			"action":    {func(r *Request) { r.Params["Action"] += "x" }, "0124"},
			"body":      {func(r *Request) { r.BodyHash = strings.Repeat("0", 64) }, "4P"},
			"version":   {func(r *Request) { r.Params[paramVersion] = "3" }, "0124P"},
			"method":    {func(r *Request) { r.Params[paramMethod] = "none" }, "124"},
		} {
			x := r
			x.Params, x.Headers = maps.Clone(r.Params), maps.Clone(r.Headers)
			part.change(&x)
			err := x.Verify(secrets[i], noon(&r))
			version := r.version()
			if version == "4" && r.Verb == "POST" {
				version = "P"
			}
			if strings.Contains(part.versions, version) != errors.Is(err, ErrInvalid) {
				t.Errorf("version %s, changed %s: %v", version, name, err)
			}
		}
	}
}

// TestReplay verifies signed requests at the ends of the window and beyond.
func TestReplay(t *testing.T) {
	all, secrets := requests(t)
	for i, r := range all {
		signed := noon(&r)
		for by, valid := range map[time.Duration]bool{-900 * time.Second: true, 900 * time.Second: true, 901 * time.Second: false, -901 * time.Second: false} {
			if err := r.Verify(secrets[i], signed.Add(by)); (err == nil) != valid {
				t.Errorf("version %s, %s later: %v", r.version(), by, err)
			}
		}
		delete(r.Params, paramTimestamp)
		delete(r.Params, amzDate)
		delete(r.Headers, amzDate)
		if err := r.Verify(secrets[i], signed); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "no time") {
			t.Errorf("version %s without a time: %v", r.version(), err)
		}
	}
	if err := CheckTime("yesterday", time.Now()); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestPorts signs without the port of the host, and with HmacSHA1.
func TestPorts(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, method := range []string{"", "HmacSHA1", "HmacSHA256"} {
		r := Request{Host: "host", Verb: "GET", Path: "/", Params: map[string]string{paramVersion: "2", paramTimestamp: "2026-11-22T12:00:00Z"}}
		if method != "" {
			r.Params[paramMethod] = method
		}
		var err error
		if r.Signature, err = r.sign("secret"); err != nil {
			t.Fatal(err)
		}
		r.Host = "host:8773"
		if err := r.Verify("secret", at); err != nil {
			t.Errorf("method %q: %v", method, err)
		}
		r.Host = "other:8773"
		if err := r.Verify("secret", at); err == nil {
			t.Error("a signature for another host is valid")
		}
	}
}

// TestAlgorithms names another algorithm, method or no signature.
func TestAlgorithms(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	const date, rest = "20261122T120000Z", " Credential=a/20261122/r/s/aws4_request,SignedHeaders=host,Signature=x"
	for name, x := range map[string]struct {
		r    Request
		want string
	}{
		"header":       {Request{Headers: map[string]string{"Authorization": "AWS4-HMAC-SHA512" + rest, amzDate: date}}, "algorithm"},
		"parameter":    {Request{Params: map[string]string{"X-Amz-Algorithm": "none", amzDate: date}}, "algorithm"},
		"none":         {Request{Headers: map[string]string{amzDate: date}}, "algorithm"},
		"two headers":  {Request{Headers: map[string]string{"Authorization": algorithm + rest, "authorization": algorithm + rest, amzDate: date}}, "algorithm"},
		"method":       {Request{Params: map[string]string{paramVersion: "2", paramMethod: "HmacMD5", paramTimestamp: "2026-11-22T12:00:00Z"}}, "HmacSHA256 or HmacSHA1"},
		"no signature": {Request{}, "signature is missing"},
	} {
		if x.r.Signature = "x"; name == "no signature" {
			x.r.Signature = ""
		}
		if err := x.r.Verify("secret", at); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
	// Python's hmac computed this signature.
	sha1Signed := Request{Signature: "IyOSN0liC8DM0ZYnhr5tePcGvrY=", Host: "host:8773", Verb: "GET", Path: "/services/Cloud/",
		Params: map[string]string{paramVersion: "2", paramMethod: "HmacSHA1", paramTimestamp: "2026-11-22T12:00:00Z", paramAction: "DescribeInstances"}}
	if err := sha1Signed.Verify("secret", at); err != nil {
		t.Errorf("a signature with HmacSHA1: %v", err)
	}
	// Without a method, version 2 signs as if the method HmacSHA256 was given.
	r := Request{Verb: "GET", Params: map[string]string{paramVersion: "2", paramTimestamp: "2026-11-22T12:00:00Z"}}
	without, err := r.sign("secret")
	r.Params[paramMethod] = "HmacSHA256"
	with, _ := r.sign("secret")
	if err != nil || with != without {
		t.Errorf("%s without the method, %s with it: %v", without, with, err)
	}
	if err := VerifyS3("secret", "not base64", encode(sha1.New, "secret", "")); !errors.Is(err, ErrInvalid) {
		t.Error("a text that is not base64 is verified as the empty text:", err)
	}
}

// TestAmbiguousHeaders sends two headers whose names differ in case only.
func TestAmbiguousHeaders(t *testing.T) {
	all, secrets := requests(t)
	for i, r := range all {
		if _, ok := r.Headers[amzDate]; !ok {
			continue
		}
		r.Headers["x-amz-date"] = "20300101T000000Z"
		if err := r.Verify(secrets[i], time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)); !errors.Is(err, ErrInvalid) {
			t.Error("two dates:", err)
		}
	}
}

func TestScopes(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, credential := range []string{
		"", "a", "a/20261122", "a/20261122/r/s", "a/20261122/r/s/aws4", "a/20261121/r/s/aws4_request", "a//r/s/aws4_request", "a/20261122/r/s/x/aws4_request",
	} {
		r := Request{Signature: "x", Verb: "GET", Path: "/", Params: map[string]string{"X-Amz-Algorithm": algorithm, amzDate: "20261122T120000Z", "X-Amz-Credential": credential}}
		if err := r.Verify("secret", at); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "scope") {
			t.Errorf("%q: %v", credential, err)
		}
	}
	for _, text := range []string{
		"AWS4", "AWS4-HMAC-SHA256\n\n20261122/r/s3/aws4_request", "AWS4-HMAC-SHA1\nd\n20261122/r/s3/aws4_request\nh",
		"AWS4-HMAC-SHA256\nd\n20261122/r/ec2/aws4_request\nh", "AWS4-HMAC-SHA256\nd\n20261122/r/s3/x\nh",
	} {
		if err := VerifyS3("secret", base64.URLEncoding.EncodeToString([]byte(text)), "x"); !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "another way") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := VerifyS3("secret", "not base64", "x"); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	empty := encode(sha1.New, "secret", "")
	if VerifyS3("secret", "", empty) != nil || VerifyS3("secret", "", "") == nil {
		t.Error("the empty text")
	}
}

// FuzzVerify verifies random requests: no text may panic, and none fits a secret
// that did not sign it.
func FuzzVerify(f *testing.F) {
	all, _ := requests(f)
	for _, r := range all {
		params, _ := json.Marshal(r.Params)
		headers, _ := json.Marshal(r.Headers)
		f.Add(r.Signature, r.Host, r.Verb, r.Path, string(params), string(headers))
	}
	for _, x := range load(f).S3 {
		f.Add(x.Signature, x.Token, "", "", "{}", "{}")
	}
	f.Fuzz(func(t *testing.T, signature, host, verb, path, params, headers string) {
		r := Request{Signature: signature, Host: host, Verb: verb, Path: path}
		if json.Unmarshal([]byte(params), &r.Params) != nil || json.Unmarshal([]byte(headers), &r.Headers) != nil {
			return
		}
		if err := r.Verify("a secret that signed none of them", noon(&r)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
		if err := VerifyS3("a secret that signed none of them", host, signature); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", host, err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	all, secrets := requests(b)
	for _, version := range []string{"2", "4"} {
		for i, r := range all {
			if r.version() != version {
				continue
			}
			b.Run("version"+version, func(b *testing.B) {
				at := noon(&r)
				for b.Loop() {
					if err := r.Verify(secrets[i], at); err != nil {
						b.Fatal(err)
					}
				}
			})
			break
		}
	}
}
