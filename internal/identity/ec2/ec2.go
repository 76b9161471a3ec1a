// Package ec2 verifies requests that were signed with an EC2 credential: the
// signature versions 0, 1, 2 and 4 of Amazon's query APIs, and the versions 2 and
// 4 of S3. Its main type is [Request], and [VerifyS3] verifies requests to S3.
//
// The package gets the secret from its caller. It stores nothing, and never
// decides whose the secret is or what the signer may do.
package ec2

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/identity/oauth1"
)

// ErrInvalid is the cause of every failed verification: the signature does not
// fit the request and the secret, the request is too old, or it lacks what its
// signature version needs. No error contains the secret or a signature.
var ErrInvalid = errors.New("invalid EC2 signature")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// Window is how far the time of a signed request may be from the current time, in
// both directions.
const Window = 15 * time.Minute

// Request is a signed request as the service that received it describes it. The
// version of the signature is the parameter SignatureVersion; without it the
// version is 4.
type Request struct {
	Signature string // signature that the client sent: base64, or hexadecimal for version 4
	Host      string // host that the client addressed, with its port if there is one
	Verb      string // method, for example GET
	Path      string // path as the client sent it
	// Params are the parameters of the query or form, without the signature.
	Params map[string]string
	// Headers are the headers of the request. Their names have any case.
	Headers map[string]string
	// BodyHash is the SHA-256 of the body in hexadecimal, for version 4.
	BodyHash string
}

// Names of parameters and headers.
const (
	paramVersion   = "SignatureVersion"
	paramMethod    = "SignatureMethod"
	paramTimestamp = "Timestamp"
	paramAction    = "Action"
	amzPrefix      = "X-Amz-"
	amzDate        = amzPrefix + "Date"
	algorithm      = "AWS4-HMAC-SHA256"
	terminator     = "aws4_request"
)

// Verify returns nil if the request was signed with the secret, at a time that is
// at most [Window] from now. Some clients sign the host without its port, so the
// signature may be made with or without it. Otherwise the error is [ErrInvalid].
func (r *Request) Verify(secret string, now time.Time) error {
	if r.Signature == "" {
		return invalid("the signature is missing")
	}
	if err := r.checkTime(now); err != nil {
		return err
	}
	want, err := r.sign(secret)
	if err != nil {
		return err
	}
	if equal(r.Signature, want) {
		return nil
	}
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		x := *r
		x.Host = host
		if want, err := x.sign(secret); err == nil && equal(r.Signature, want) {
			return nil
		}
	}
	return invalid("the request was signed in another way or with another secret")
}

// equal compares two signatures in a time that depends on their lengths only.
func equal(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

// checkTime checks the time of the request, which the signature covers.
func (r *Request) checkTime(now time.Time) error {
	text := r.Params[paramTimestamp]
	if r.version() == "4" {
		text = r.amz("Date")
	}
	if text == "" {
		return invalid("the request has no time")
	}
	return CheckTime(text, now)
}

// version returns the version of the signature.
func (r *Request) version() string { return cmp.Or(r.Params[paramVersion], "4") }

// timeForms are the forms of times in requests. A time without a zone is UTC.
var timeForms = []string{time.RFC3339, "2006-01-02T15:04:05", "20060102T150405Z"}

// CheckTime fails with [ErrInvalid] if text is no time, or if the time is more
// than [Window] from now. The time has the form 2026-01-02T15:04:05Z or
// 20260102T150405Z.
func CheckTime(text string, now time.Time) error {
	for _, form := range timeForms {
		t, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		if t.Before(now.Add(-Window)) || t.After(now.Add(Window)) {
			return invalid("the time %s is more than %s from the current time", t.UTC().Format(time.RFC3339), Window)
		}
		return nil
	}
	return invalid("time %.40q: expected RFC 3339, for example 2026-01-02T15:04:05Z", text)
}

// sign returns the signature that the request must have.
func (r *Request) sign(secret string) (string, error) {
	switch version := r.version(); version {
	case "0":
		return encode(sha1.New, secret, r.Params[paramAction]+r.Params[paramTimestamp]), nil
	case "1":
		return encode(sha1.New, secret, r.concatenated()), nil
	case "2":
		return r.sign2(secret)
	case "4":
		return r.sign4(secret)
	default:
		return "", invalid("signature version %.20q: expected 0, 1, 2 or 4", version)
	}
}

// encode returns the HMAC of a text as base64.
func encode(h func() hash.Hash, secret, text string) string {
	return base64.StdEncoding.EncodeToString(sum(h, []byte(secret), text))
}

func sum(h func() hash.Hash, key []byte, text string) []byte {
	mac := hmac.New(h, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// concatenated returns the text that version 1 signs: all names and values, in
// the order of the names without regard to case.
func (r *Request) concatenated() string {
	names := r.names()
	slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	var b strings.Builder
	for _, n := range names {
		b.WriteString(n)
		b.WriteString(r.Params[n])
	}
	return b.String()
}

// names returns the names of the parameters in ascending order.
func (r *Request) names() []string {
	names := make([]string, 0, len(r.Params))
	for n := range r.Params {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// sign2 returns the signature of version 2. Its method is HmacSHA256 unless the
// request names HmacSHA1.
func (r *Request) sign2(secret string) (string, error) {
	h, method := sha256.New, "HmacSHA256"
	switch given := r.Params[paramMethod]; given {
	case "", method:
	case "HmacSHA1":
		h, method = sha1.New, given
	default:
		return "", invalid("signature method %.20q: expected HmacSHA256 or HmacSHA1", given)
	}
	x := Request{Params: make(map[string]string, len(r.Params)+1)}
	for n, v := range r.Params {
		x.Params[n] = v
	}
	x.Params[paramMethod] = method
	return encode(h, secret, r.Verb+"\n"+r.Host+"\n"+r.Path+"\n"+x.query()), nil
}

// query returns the canonical query string: sorted, with escapes of RFC 3986.
func (r *Request) query() string {
	var b strings.Builder
	for i, n := range r.names() {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(oauth1.Escape(n) + "=" + oauth1.Escape(r.Params[n]))
	}
	return b.String()
}
