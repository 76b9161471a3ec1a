package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity/oauth1"
	"github.com/ostiary/ostiary/internal/tool/btree"
)

// noncesMax is the largest number of nonces that are stored.
const noncesMax = 100_000

// nonceKind is the kind of the documents of nonces, after documentPrefix.
const nonceKind = "nonce"

// nonceMap is the nonces of the signed requests that were accepted, by nonce.key. They
// are stored, so that no request is accepted twice: by another node, or after a restart.
type nonceMap = btree.Map[string, struct{}]

// nonce names a signed request. No two requests may have the same one.
type nonce struct {
	consumer, token, text string
	signed                int64 // time at which it was signed, in Unix seconds
}

// key is the key of the nonce's document. Keys are in the order of the times at which
// requests were signed.
func (n *nonce) key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d %s %s", len(n.consumer), n.consumer, len(n.token), n.token, n.text))
	return noncesOf(n.signed) + hex.EncodeToString(sum[:])
}

// noncesOf is the beginning of the keys of the nonces that were signed at a time.
func noncesOf(signed int64) string { return fmt.Sprintf("%016x-", uint64(signed)) }

// nonceLife is how long a nonce is stored after its request was signed. Then the request
// is too old, also for a server whose clock differs by clockSkewMax.
const nonceLife = oauth1.Window + clockSkewMax

// endedNonces returns the keys of nonces whose requests are too old, at most purgedMax.
func (d *directory) endedNonces(now time.Time) (keys []authz.DocumentKey) {
	end := noncesOf(now.Add(-nonceLife).Unix())
	d.nonces.Ascend("", func(key string, _ struct{}) bool {
		if key >= end || len(keys) == purgedMax {
			return false
		}
		keys = append(keys, authz.DocumentKey{Kind: documentPrefix + nonceKind, Key: key})
		return true
	})
	return keys
}

// useNonce stores that the request with the nonce was accepted. It fails with
// Unauthorized if it was accepted before, and with Unavailable if the bound OAuth1Nonces
// is reached. The caller has verified that the request is not too old.
func (s *Service) useNonce(ctx context.Context, n nonce) error {
	key := n.key()
	_, err := s.together(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		if _, used := d.nonces.Get(key); used {
			return w, unauthorized("the request was sent before")
		}
		w.RemoveDocuments = d.endedNonces(s.now())
		if d.nonces.Len()-len(w.RemoveDocuments) >= s.noncesMax {
			return w, failf(Unavailable, "There are too many signed requests: the bound OAuth1Nonces (%d) is reached.", s.noncesMax)
		}
		w.Documents = []authz.Document{{Kind: documentPrefix + nonceKind, Key: key, Body: []byte("{}")}}
		return w, nil
	})
	return err
}
