package ec2

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

// VerifyS3 returns nil if a request to S3 was signed with the secret. token is
// the text that the client signed, in base64 with either alphabet. A text that
// begins with AWS4 has a signature of version 4 in hexadecimal; every other text
// has an HMAC-SHA1 in base64. Otherwise the error is [ErrInvalid].
//
// The service that received the request checks its time, because a URL that is
// signed in advance is valid for up to seven days.
func VerifyS3(secret, token, signature string) error {
	raw, err := base64.URLEncoding.DecodeString(strings.NewReplacer("+", "-", "/", "_").Replace(token))
	if err != nil {
		return invalid("the signed text is not base64")
	}
	text := string(raw)
	want := encode(sha1.New, secret, text)
	if strings.HasPrefix(text, "AWS4") {
		if want, err = s3Version4(secret, text); err != nil {
			return err
		}
	}
	if signature == "" || !equal(signature, want) {
		return invalid("the request was signed in another way or with another secret")
	}
	return nil
}

// s3Version4 returns the signature of a text to sign: four lines, of which the
// third one is the scope.
func s3Version4(secret, text string) (string, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[0] != algorithm {
		return "", invalid("signed text of %d lines: expected 4, of which the first one is %s", len(lines), algorithm)
	}
	scope := strings.Split(lines[2], "/")
	if len(scope) != 4 || scope[3] != terminator || !slices.Contains([]string{"s3", "iam", "sts"}, scope[2]) {
		return "", invalid("credential scope %.80q: expected a date, a region, the service s3, iam or sts, and %s", lines[2], terminator)
	}
	return hex.EncodeToString(sum(sha256.New, signingKey(secret, scope), text)), nil
}
