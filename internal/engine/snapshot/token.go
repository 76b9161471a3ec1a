package snapshot

import (
	"context"
	"encoding/binary"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// markOf returns the part of an entry's hash that tokens contain.
func markOf(h storage.Hash) uint64 { return binary.BigEndian.Uint64(h[:8]) }

// TokenParts returns the content of the token of a head.
func (t *Timeline) TokenParts(h storage.Head) authz.TokenParts {
	return authz.TokenParts{Incarnation: t.Incarnation, Revision: h.Revision, Mark: markOf(h.Hash)}
}

// Token returns the token of a head.
func (t *Timeline) Token(h storage.Head) authz.Token { return t.TokenParts(h).Token() }

// headToken is the token of a head.
type headToken struct {
	head  storage.Head
	token authz.Token
}

// TokenAt returns the token of a revision that the store has. The token of the
// newest revision is cached.
func (t *Timeline) TokenAt(ctx context.Context, r storage.Revision) (authz.Token, error) {
	v, err := t.Current(ctx)
	if err != nil {
		return "", err
	}
	if r == v.Head.Revision {
		known := t.headToken.Load()
		if known == nil || known.head != v.Head {
			known = &headToken{v.Head, t.Token(v.Head)}
			t.headToken.Store(known)
		}
		return known.token, nil
	}
	m, err := t.mark(ctx, v, r)
	return authz.TokenParts{Incarnation: t.Incarnation, Revision: r, Mark: m}.Token(), err
}
