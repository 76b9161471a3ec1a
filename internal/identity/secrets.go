package identity

import (
	"context"
	"errors"

	"github.com/ostiary/ostiary"
)

// secretKinds are the kinds of records that have a secret, which is created and
// deleted with its record. Users and configurations of domains are not among them,
// because they may have none.
var secretKinds = []Kind{Credential, Consumer, RequestToken, AccessToken, ApplicationCredential}

// secretKey is the key of a record's secret in the store.
func (r *Record) secretKey() ostiary.DocumentKey {
	return ostiary.DocumentKey{Kind: documentPrefix + string(r.Kind) + "-secret", Key: r.ID}
}

// sealed returns the secret of a record with a text.
func (r *Record) sealed(text string) ostiary.Document {
	k := r.secretKey()
	return ostiary.Document{Kind: k.Kind, Key: k.Key, Body: []byte(text)}
}

// keep adds a record with its secret. check validates it on the directory, and
// is called again if the store has changed meanwhile. keep fails with Conflict
// if the id is in use.
func (s *Service) keep(ctx context.Context, r *Record, secret string, check func(*directory) error) (*Record, error) {
	r.SecretVersion = newID()
	d, err := s.write(ctx, func(d *directory) (ostiary.WriteRequest, error) {
		if _, err := d.get(r.Kind, r.ID); err == nil {
			return ostiary.WriteRequest{}, duplicate(r, "ID", r.ID)
		}
		if err := check(d); err != nil {
			return ostiary.WriteRequest{}, err
		}
		return ostiary.WriteRequest{Documents: []ostiary.Document{r.document()}, Secrets: []ostiary.Document{r.sealed(secret)}}, nil
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
	if errors.Is(err, ostiary.ErrNoDocument) {
		return "", missing(r.Kind, r.ID)
	}
	return string(secret.Body), err
}
