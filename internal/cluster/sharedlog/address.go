package sharedlog

import (
	"net/url"
	"regexp"
	"strings"
)

// hidden is what texts have in place of a secret.
const hidden = "xxxxx"

// secretName matches the names of parameters of a URL whose values are secrets: password,
// sslpassword, pwd.
var secretName = regexp.MustCompile(`(?i)passw|pwd|secret|token`)

// ShownAddress returns the URL of a database for messages, without the passwords of its user
// and its parameters. The URL need not be valid.
func ShownAddress(address string) string {
	shown, _ := split(address)
	return shown
}

// HideSecrets returns err, or an error that wraps it if its text has a password of the URL
// of a database. The text has no password then.
func HideSecrets(err error, address string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	_, secrets := split(address)
	for _, secret := range secrets {
		plain, failed := url.QueryUnescape(secret)
		if failed != nil {
			plain = secret
		}
		for _, form := range [...]string{secret, plain, url.QueryEscape(plain), url.PathEscape(plain)} {
			text = strings.NewReplacer("="+form, "="+hidden, "='"+form, "='"+hidden, ":"+form+"@", ":"+hidden+"@").Replace(text)
		}
	}
	if text == err.Error() {
		return err
	}
	return &hiding{text, err}
}

// hiding is an error with another text.
type hiding struct {
	text string
	err  error
}

func (e *hiding) Error() string { return e.text }
func (e *hiding) Unwrap() error { return e.err }

// split returns the URL of a database without its secrets, and the secrets as they are in it.
func split(address string) (shown string, secrets []string) {
	rest, query, hasQuery := strings.Cut(address, "?")
	scheme, rest, _ := strings.Cut(rest, "://")
	shown = scheme + "://"
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, has := strings.Cut(rest[:at], ":")
		if shown += user; has {
			shown += ":" + hidden
			secrets = append(secrets, password)
		}
		rest = rest[at:]
	}
	shown += rest
	if !hasQuery {
		return shown, secrets
	}
	var parts []string
	for part := range strings.SplitSeq(query, "&") {
		name, value, has := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		switch {
		case !has || strings.Contains(value, "@"): // it may be the end of a password with a question mark
			part = hidden
		case err != nil || secretName.MatchString(plain):
			part = name + "=" + hidden
			secrets = append(secrets, value)
		}
		parts = append(parts, part)
	}
	return shown + "?" + strings.Join(parts, "&"), secrets
}
