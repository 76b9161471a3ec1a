// Package oauth1 reads and verifies requests that were signed with HMAC-SHA1 as
// RFC 5849 (OAuth 1.0) describes. Its main type is [Request].
//
// The package gets the secrets from its caller and stores nothing. Its caller
// remembers the nonces, and so refuses a request that is sent again.
package oauth1

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrMalformed is the cause of every failed [Parse]: the request lacks what a
// signed request needs, or has it twice.
var ErrMalformed = errors.New("invalid OAuth request")

// ErrInvalid is the cause of every failed [Request.Verify]: the signature does not
// fit the request and the secrets, or the request is too old. No error contains a
// secret or a signature.
var ErrInvalid = errors.New("invalid OAuth signature")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// Window is how far the time of a signed request may be from the current time, in
// both directions.
const Window = 10 * time.Minute

// Parameters of the Authorization header.
const (
	Consumer  = "oauth_consumer_key" // id of the consumer
	Token     = "oauth_token"        // id of a request token or an access token
	Verifier  = "oauth_verifier"     // proof that a user has authorized a request token
	Callback  = "oauth_callback"     // URL that the consumer is called back at, or oob
	Nonce     = "oauth_nonce"        // text that is different in all requests of one time
	Timestamp = "oauth_timestamp"    // seconds since 1970
	method    = "oauth_signature_method"
	signature = "oauth_signature"
	version   = "oauth_version"
	realm     = "realm"
)

// nonceMax is the largest number of bytes of a nonce.
const nonceMax = 128

// Request is a signed request.
type Request struct {
	verb   string
	base   string // base string URI
	params []param
	sent   map[string]string // parameters of the Authorization header
	time   time.Time
}

type param struct{ name, value string }

// Parse reads a signed request. u is the URL that the client addressed, with
// scheme and host, and authorization the Authorization header. It fails with
// [ErrMalformed].
func Parse(verb string, u *url.URL, authorization string) (*Request, error) {
	header, err := parseHeader(authorization)
	if err != nil {
		return nil, err
	}
	r := &Request{verb: strings.ToUpper(verb), base: baseURI(u), sent: map[string]string{}}
	for _, p := range header {
		if _, twice := r.sent[p.name]; twice {
			return nil, malformed("parameter %.64q occurs twice", p.name)
		}
		r.sent[p.name] = p.value
		if p.name != realm && p.name != signature {
			r.params = append(r.params, p)
		}
	}
	query, err := parseQuery(u.RawQuery)
	if err != nil {
		return nil, err
	}
	r.params = append(r.params, query...)
	return r, r.check()
}

// check validates the parameters that every signed request has.
func (r *Request) check() error {
	for _, name := range []string{Consumer, method, signature, Timestamp, Nonce} {
		if r.sent[name] == "" {
			return malformed("the parameter %s is missing", name)
		}
	}
	seconds, err := strconv.ParseUint(r.sent[Timestamp], 10, 40)
	switch {
	case r.sent[method] != "HMAC-SHA1":
		return malformed("signature method %.64q: expected HMAC-SHA1", r.sent[method])
	case r.sent[version] != "" && r.sent[version] != "1.0":
		return malformed("version %.64q: expected 1.0", r.sent[version])
	case err != nil:
		return malformed("timestamp %.64q: expected seconds since 1970", r.sent[Timestamp])
	case len(r.sent[Nonce]) > nonceMax:
		return malformed("nonce of %d bytes: expected at most %d", len(r.sent[Nonce]), nonceMax)
	}
	r.time = time.Unix(int64(seconds), 0)
	return nil
}

// Get returns a parameter of the Authorization header, or "".
func (r *Request) Get(name string) string { return r.sent[name] }

// Time returns the time at which the client signed the request, in whole seconds.
func (r *Request) Time() time.Time { return r.time }

// Verify returns nil if the request was signed with the secrets of the consumer
// and of the token ("" without a token), at a time that is at most [Window] from
// now. Otherwise the error is [ErrInvalid].
func (r *Request) Verify(consumer, token string, now time.Time) error {
	if r.time.Before(now.Add(-Window)) || r.time.After(now.Add(Window)) {
		return fmt.Errorf("%w: the time %s is more than %s from the current time", ErrInvalid, r.time.UTC().Format(time.RFC3339), Window)
	}
	if !hmac.Equal([]byte(r.sent[signature]), []byte(r.sign(consumer, token))) {
		return fmt.Errorf("%w: the request was signed in another way or with other secrets", ErrInvalid)
	}
	return nil
}

// sign returns the signature that the request must have (RFC 5849, section
// 3.4.2).
func (r *Request) sign(consumer, token string) string {
	mac := hmac.New(sha1.New, []byte(Escape(consumer)+"&"+Escape(token)))
	mac.Write([]byte(Escape(r.verb) + "&" + Escape(r.base) + "&" + Escape(normalize(r.params))))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// normalize returns the parameters in the form of RFC 5849, section 3.4.1.3.2.
func normalize(params []param) string {
	escaped := make([]param, len(params))
	for i, p := range params {
		escaped[i] = param{Escape(p.name), Escape(p.value)}
	}
	slices.SortFunc(escaped, func(a, b param) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	var b strings.Builder
	for i, p := range escaped {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.name + "=" + p.value)
	}
	return b.String()
}

// baseURI returns the URL without query, in the form of RFC 5849, section 3.4.1.2.
func baseURI(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := map[string]string{"http": ":80", "https": ":443"}[scheme]; port != "" {
		host = strings.TrimSuffix(host, port)
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return scheme + "://" + host + path
}
