package identity

import (
	"context"
	"errors"

	"github.com/ostiary/ostiary/authz"
)

// secretKinds are the kinds of records that have a secret, which is created and
// deleted with its record. Users and configurations of domains are not among them,
// because they may have none.
var secretKinds = []Kind{Credential, Consumer, RequestToken, AccessToken, ApplicationCredential}

// secretKey is the key of a record's secret in the store.
func (r *Record) secretKey() authz.DocumentKey {
	return authz.DocumentKey{Kind: documentPrefix + string(r.Kind) + "-secret", Key: r.ID}
}

// sealed returns the secret of a record with a text.
func (r *Record) sealed(text string) authz.Document {
	k := r.secretKey()
	return authz.Document{Kind: k.Kind, Key: k.Key, Body: []byte(text)}
}

// keep adds a record with its secret. check validates it on the directory, and
// is called again if the store has changed meanwhile. keep fails with Conflict
// if the id is in use.
func (s *Service) keep(ctx context.Context, r *Record, secret string, check func(*directory) error) (*Record, error) {
	r.SecretVersion = newID()
	d, err := s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		if _, err := d.get(r.Kind, r.ID); err == nil {
			return authz.WriteRequest{}, duplicate(r, "ID", r.ID)
		}
		if err := check(d); err != nil {
			return authz.WriteRequest{}, err
		}
		return authz.WriteRequest{Documents: []authz.Document{r.document()}, Secrets: []authz.Document{r.sealed(secret)}}, nil
	})
	if err != nil {
		return nil, err
	}
	return d.get(r.Kind, r.ID)
}

// reveal returns the secret of a record. It fails with NotFound if the record was
// deleted meanwhile.
func (s *Service) reveal(ctx context.Context, r *Record) (string, error) {
	secret, err := s.store.Secret(ctx, r.secretKey())
	if errors.Is(err, authz.ErrNoDocument) {
		return "", missing(r.Kind, r.ID)
	}
	return string(secret.Body), err
}
