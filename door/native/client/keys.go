package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/ostiary/ostiary/internal/tool/turns"
)

// Key is a key in the system store of a server.
type Key struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Owner   string     `json:"owner"`
	Creator string     `json:"creator"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Expired bool       `json:"expired"`
	Stores  []string   `json:"stores"`
	Rights  []string   `json:"rights"`
	Doors   []string   `json:"doors"`
	Match   *Match     `json:"match,omitempty"`
	// MatchCertificate is a name that the certificate of a caller must have for the caller
	// to have the scope: uri:URI, uri:URI/*, dns:NAME or email:ADDRESS.
	MatchCertificate string        `json:"match_certificate,omitempty"`
	Secrets          int           `json:"secrets"`
	Limits           *turns.Limits `json:"limits,omitempty"`
	// Secret is set by CreateKey and RotateKey only.
	Secret   string   `json:"secret,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Match is what the token of a caller must have for the caller to have the scope of a key.
type Match struct {
	Issuer string `json:"issuer"`
	Claim  string `json:"claim"`
	Value  string `json:"value"`
}

// NewKey describes a key that is made.
type NewKey struct {
	Name    string     `json:"name"`
	Owner   string     `json:"owner,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	Stores  []string   `json:"stores"`
	Rights  []string   `json:"rights"`
	Doors   []string   `json:"doors,omitempty"`
	Match   *Match     `json:"match,omitempty"`
	// MatchCertificate is as in [Key].
	MatchCertificate string        `json:"match_certificate,omitempty"`
	Limits           *turns.Limits `json:"limits,omitempty"`
}

// KeyQuestion asks whether a key may do something.
type KeyQuestion struct {
	Store string `json:"store,omitempty"`
	Right string `json:"right,omitempty"`
	Door  string `json:"door,omitempty"`
	At    *At    `json:"at,omitempty"`
	Text  bool   `json:"text,omitempty"`
}

func keyPath(name, below string) string { return prefix + "/keys/" + url.PathEscape(name) + below }

// Keys returns the keys that the caller administers, in the order of their names.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	var out struct{ Keys []Key }
	_, err := c.Call(ctx, http.MethodGet, prefix+"/keys", nil, &out)
	return out.Keys, err
}

// CreateKey makes a key. Only its result has the secret.
func (c *Client) CreateKey(ctx context.Context, n NewKey) (out Key, err error) {
	_, err = c.Call(ctx, http.MethodPost, prefix+"/keys", n, &out)
	return out, err
}

// Key returns a key by its name.
func (c *Client) Key(ctx context.Context, name string) (out Key, err error) {
	_, err = c.Call(ctx, http.MethodGet, keyPath(name, ""), nil, &out)
	return out, err
}

// RotateKey gives a key a new secret. Those before are accepted for keep, in whole seconds.
func (c *Client) RotateKey(ctx context.Context, name string, keep time.Duration) (out Key, err error) {
	in := struct {
		KeepSeconds int64 `json:"keep_seconds"`
	}{int64(keep / time.Second)}
	_, err = c.Call(ctx, http.MethodPost, keyPath(name, "/rotate"), in, &out)
	return out, err
}

// RevokeKey ends a key and removes it.
func (c *Client) RevokeKey(ctx context.Context, name string) error {
	_, err := c.Call(ctx, http.MethodDelete, keyPath(name, ""), nil, nil)
	return err
}

// ExplainKey returns the JSON of the answer to a question about a key.
func (c *Client) ExplainKey(ctx context.Context, name string, q KeyQuestion) (out json.RawMessage, err error) {
	_, err = c.Call(ctx, http.MethodPost, keyPath(name, "/explain"), q, &out)
	return out, err
}
