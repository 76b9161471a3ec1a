package ec2

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// header returns a header by its name without regard to case. The second result
// is false if there is none, or more than one.
func (r *Request) header(name string) (value string, found bool) {
	for n, v := range r.Headers {
		if strings.EqualFold(strings.TrimSpace(n), name) {
			if found {
				return "", false
			}
			value, found = strings.TrimSpace(v), true
		}
	}
	return value, found
}

// amz returns a header of Amazon's, or the parameter with its name.
func (r *Request) amz(name string) string {
	if v, ok := r.header(amzPrefix + name); ok {
		return v
	}
	return r.Params[amzPrefix+name]
}

// auth returns a part of the Authorization header, or the parameter with its
// name if the request has no such header.
func (r *Request) auth(name string) string {
	header, ok := r.header("Authorization")
	if !ok {
		return r.Params[amzPrefix+name]
	}
	_, rest, _ := strings.Cut(header, name+"=")
	value, _, _ := strings.Cut(rest, ",")
	return value
}

// sign4 returns the signature of version 4, in hexadecimal.
func (r *Request) sign4(secret string) (string, error) {
	if header, ok := r.header("Authorization"); ok && !strings.HasPrefix(header, algorithm) || !ok && r.Params[amzPrefix+"Algorithm"] != algorithm {
		return "", invalid("expected a signature of version 4 with the algorithm %s", algorithm)
	}
	// The credential is the access key, the date, the region, the service and
	// the terminator.
	_, scope, _ := strings.Cut(r.auth("Credential"), "/")
	date := r.amz("Date")
	parts := strings.Split(scope, "/")
	if len(parts) != 4 || parts[3] != terminator || parts[0] == "" || !strings.HasPrefix(date, parts[0]) {
		return "", invalid("credential scope %.80q: expected the date of the request, a region, a service and %s", scope, terminator)
	}
	text := algorithm + "\n" + date + "\n" + scope + "\n" + hexSum(r.canonical())
	return hex.EncodeToString(sum(sha256.New, signingKey(secret, parts), text)), nil
}

func hexSum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// signingKey derives the key from the secret and the parts of the scope.
func signingKey(secret string, scope []string) []byte {
	key := []byte("AWS4" + secret)
	for _, part := range scope {
		key = sum(sha256.New, key, part)
	}
	return key
}

// canonical returns the canonical request. The parameters of a POST are in its
// body, and so in the hash of the body.
func (r *Request) canonical() string {
	query := ""
	if !strings.EqualFold(r.Verb, "POST") {
		query = r.query()
	}
	signed := r.auth("SignedHeaders")
	var headers []string
	for name := range strings.SplitSeq(signed, ";") {
		if value, ok := r.header(name); ok {
			headers = append(headers, name+":"+value)
		}
	}
	return strings.Join([]string{strings.ToUpper(r.Verb), r.Path, query, strings.Join(headers, "\n") + "\n", signed, r.BodyHash}, "\n")
}
