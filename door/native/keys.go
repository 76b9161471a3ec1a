package native

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/tool/turns"
)

// keyJSON is a key in a response.
type keyJSON struct {
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Owner   string         `json:"owner"`
	Creator string         `json:"creator"`
	Created time.Time      `json:"created"`
	Expires *time.Time     `json:"expires,omitempty"`
	Expired bool           `json:"expired"`
	Stores  []string       `json:"stores"`
	Rights  []string       `json:"rights"`
	Doors   []string       `json:"doors"`
	Match   *callers.Match `json:"match,omitempty"`
	// MatchCertificate is Certificate of the match.
	MatchCertificate string        `json:"match_certificate,omitempty"`
	Limits           *turns.Limits `json:"limits,omitempty"`
	// Secrets is how many secrets are accepted.
	Secrets int `json:"secrets"`
	// Secret is that of a key that was just made or rotated; nothing else shows it.
	Secret   string   `json:"secret,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// keyOf translates a key.
func (c *call) keyOf(k *callers.Key) keyJSON {
	now := time.Now()
	out := keyJSON{ID: k.ID, Name: k.Name, Owner: k.Owner, Creator: k.Creator, Created: k.Created, Doors: k.Doors, Secrets: k.Secrets(now)}
	if !k.Expires.IsZero() {
		out.Expires, out.Expired = &k.Expires, !now.Before(k.Expires)
	}
	if out.MatchCertificate = k.Match.Certificate; out.MatchCertificate == "" && k.Match != (callers.Match{}) {
		out.Match = &k.Match
	}
	out.Limits = limitsOf(c.options.Callers.Limits(k.Name))
	for _, place := range k.Stores {
		out.Stores = append(out.Stores, place.String())
	}
	for _, right := range k.Rights {
		out.Rights = append(out.Rights, right.String())
	}
	return out
}

// keyError gives the errors of keys their statuses.
func keyError(err error) error {
	switch {
	case errors.Is(err, callers.ErrNoKey):
		return &problem{status: http.StatusNotFound, Code: "no_key", Message: err.Error()}
	case errors.Is(err, callers.ErrKeyExists):
		return &problem{status: http.StatusConflict, Code: "key_exists", Message: err.Error()}
	}
	return err
}

// keyName returns the name of the key that the path names.
func (c *call) keyName() (string, error) {
	name, err := url.PathUnescape(c.Params.At(0))
	if err != nil {
		return "", invalidRequest("invalid name of a key: expected text with percent-encoding")
	}
	return name, nil
}

// setMade sets the response to a key that was made or rotated.
func (c *call) setMade(made *callers.Made, err error) error {
	if err != nil {
		return keyError(err)
	}
	out := c.keyOf(made.Key)
	out.Secret, out.Warnings = made.Secret, made.Warnings
	c.W.Header().Set("Cache-Control", "no-store")
	return c.setJSON(out)
}

// listKeys serves ListKeys.
func (c *call) listKeys() error {
	keys, err := c.options.Callers.List(c.Context())
	if err != nil {
		return err
	}
	out := struct {
		Keys []keyJSON `json:"keys"`
	}{[]keyJSON{}}
	for _, k := range keys {
		out.Keys = append(out.Keys, c.keyOf(k))
	}
	return c.setJSON(out)
}

// createKey serves CreateKey.
func (c *call) createKey() error {
	var n callers.NewKey
	var hasName, hasStores, hasRights bool
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "name":
			n.Name, hasName = r.String(), true
		case "owner":
			n.Owner = r.String()
		case "expires":
			n.Expires = readTime(r)
		case "stores":
			n.Stores, hasStores = r.Strings(), true
		case "rights":
			n.Rights, hasRights = r.Strings(), true
		case "doors":
			n.Doors = r.Strings()
		case "limits":
			n.Limits = readLimits(r)
		case "match":
			certificate := n.Match.Certificate
			n.Match = readMatch(r)
			n.Match.Certificate = certificate
		case "match_certificate":
			if n.Match.Certificate = r.String(); n.Match.Certificate == "" {
				r.Fail("expected the name of a certificate")
			}
		default:
			r.Unknown()
		}
	}
	if !hasName || !hasStores || !hasRights {
		r.Fail("expected name, stores and rights")
	}
	if err := r.End(); err != nil {
		return err
	}
	c.status = http.StatusCreated
	return c.setMade(c.options.Callers.Create(c.Context(), n))
}

// readMatch reads what a key matches.
func readMatch(r *jsonread.Reader) (m callers.Match) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "issuer":
			m.Issuer = r.String()
		case "claim":
			m.Claim = r.String()
		case "value":
			m.Value = r.String()
		default:
			r.Unknown()
		}
	}
	if m == (callers.Match{}) {
		r.Fail("expected issuer, claim and value")
	}
	return m
}

// getKey serves GetKey.
func (c *call) getKey() error {
	name, err := c.keyName()
	if err != nil {
		return err
	}
	k, err := c.options.Callers.Find(c.Context(), name)
	if err != nil {
		return keyError(err)
	}
	return c.setJSON(c.keyOf(k))
}

// revokeKey serves RevokeKey.
func (c *call) revokeKey() error {
	name, err := c.keyName()
	if err != nil {
		return err
	}
	k, err := c.options.Callers.Revoke(c.Context(), name)
	if err != nil {
		return keyError(err)
	}
	return c.setJSON(struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}{k.ID, k.Name})
}

// keepMax is the longest time that the old secret of a key is kept, in seconds.
const keepMax = 90 * 24 * 3600

// rotateKey serves RotateKey.
func (c *call) rotateKey() error {
	var keep time.Duration
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "keep_seconds":
			keep = time.Duration(r.Int(0, keepMax)) * time.Second
		default:
			r.Unknown()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	name, err := c.keyName()
	if err != nil {
		return err
	}
	return c.setMade(c.options.Callers.Rotate(c.Context(), name, keep))
}

// explainKey serves ExplainKey: whether a key has a right on a store, and may use a door,
// and why.
func (c *call) explainKey() error {
	q := callers.Question{Right: authz.RightRead}
	text := false
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "store":
			q.Store = r.String()
		case "right":
			right, ok := authz.ParseRight(r.String())
			if q.Right = right; !ok {
				r.Fail("expected read, write, schema or admin")
			}
		case "door":
			q.Door = r.String()
		case "at":
			q.Consistency = readAt(r)
		case "text":
			text = r.Bool()
		default:
			r.Unknown()
		}
	}
	err := r.End()
	if err == nil {
		q.Key, err = c.keyName()
	}
	if err != nil {
		return err
	}
	all, err := c.options.Callers.Explain(c.Context(), q)
	if err != nil {
		return keyError(err)
	}
	type answerJSON struct {
		Allowed     bool               `json:"allowed"`
		Explanation *authz.Explanation `json:"explanation"`
		Text        string             `json:"text,omitempty"`
	}
	out := struct {
		Allowed  bool         `json:"allowed"`
		Revision uint64       `json:"revision"`
		Answers  []answerJSON `json:"answers"`
	}{Allowed: true}
	for i := range all {
		x := &all[i]
		a := answerJSON{Allowed: x.Answer.Allowed(), Explanation: &x.Explanation}
		if text {
			a.Text = x.String()
		}
		out.Allowed, out.Revision = out.Allowed && a.Allowed, uint64(x.Revision)
		out.Answers = append(out.Answers, a)
	}
	return c.setJSON(out)
}
