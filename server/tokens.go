package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/identity/oidc"
	"github.com/ostiary/ostiary/internal/callers"
)

const (
	methodOIDC = "oidc" // door.Caller.Method of callers with a token of OpenID Connect
	// tokensMax is the largest number of verified tokens that are remembered.
	tokensMax = 10_000
	// tokenWait is how long a request waits for the keys of a provider.
	tokenWait = 3 * time.Second
	// issuerEnd is between the issuer and the subject in the name of a caller with a
	// token. The URL of an issuer does not contain it.
	issuerEnd = "#"
)

// tokens verifies the tokens of OpenID Connect providers, and remembers those that are
// valid until they end. Its methods may be called concurrently.
type tokens struct {
	verifier *oidc.Verifier
	stored   *callers.Registry // the keys that match tokens

	mu    sync.RWMutex
	known map[[sha256.Size]byte]*token
}

// token is a verified token.
type token struct {
	oidc.Verified
	key atomic.Pointer[hashedKey] // of the keys that matched it last; nil before
}

func newTokens(v *oidc.Verifier, stored *callers.Registry) *tokens {
	if v == nil || stored == nil {
		return nil
	}
	return &tokens{verifier: v, stored: stored, known: map[[sha256.Size]byte]*token{}}
}

// formOfToken reports whether a text may be a signed token. t may be nil.
func (t *tokens) formOfToken(text string) bool { return t != nil && strings.Count(text, ".") == 2 }

// find returns the key of the caller who has a token, whose hash is sum. Unless fetch is
// true, it finds only tokens that were verified before.
func (t *tokens) find(ctx context.Context, text string, sum [sha256.Size]byte, fetch bool) (*hashedKey, door.Reason) {
	t.mu.RLock()
	known := t.known[sum]
	t.mu.RUnlock()
	if known == nil {
		if !fetch {
			return nil, door.BadCredentials
		}
		var why door.Reason
		if known, why = t.verify(ctx, text); why != 0 {
			return nil, why
		}
		t.remember(sum, known)
	}
	var old *callers.Matched
	key := known.key.Load()
	if key != nil {
		old = key.matched
	}
	m, err := t.stored.Matching(ctx, old, known.Ends, known.fulfills)
	switch {
	case err != nil:
		return nil, door.Unsure
	case key == nil || m != old:
		if m.Expired() {
			t.forget(sum)
			return nil, door.BadCredentials
		}
		key = matchedKey(m, known.Issuer+issuerEnd+known.Subject)
		known.key.Store(key)
	}
	return key, 0
}

// verify verifies a token.
func (t *tokens) verify(ctx context.Context, text string) (*token, door.Reason) {
	ctx, cancel := context.WithTimeout(ctx, tokenWait)
	defer cancel()
	v, err := t.verifier.Verify(ctx, text)
	switch {
	case errors.Is(err, oidc.ErrInvalid):
		return nil, door.BadCredentials
	case err != nil:
		return nil, door.Unsure
	case v.Subject == "" || !validName(v.Issuer+issuerEnd+v.Subject):
		return nil, door.BadCredentials
	}
	return &token{Verified: *v}, 0
}

// remember keeps a token. At the bound it forgets another one, which is verified again
// when it comes.
func (t *tokens) remember(sum [sha256.Size]byte, k *token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= tokensMax {
		for other := range t.known {
			delete(t.known, other)
			break
		}
	}
	t.known[sum] = k
}

func (t *tokens) forget(sum [sha256.Size]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, sum)
}

// fulfills reports whether the token has what a key asks for.
func (k *token) fulfills(m callers.Match) bool {
	return m.Issuer == k.Issuer && slices.Contains(oidc.Values(m.In(k.Claims)), m.Value)
}

// matchedKey returns the accepted key of a caller with a token. author has its issuer and
// its subject.
func matchedKey(m *callers.Matched, author string) *hashedKey {
	issuer, subject, _ := strings.Cut(author, issuerEnd)
	return &hashedKey{caller: door.Caller{Method: methodOIDC, ID: subject, Owner: issuer}, author: author, grant: m, matched: m}
}

// grant is what the system store lets a caller do: a [callers.Credential] or
// [callers.Matched].
type grant interface {
	// Ended reports whether it is no longer accepted, and Until returns a context that
	// ends then.
	Ended() bool
	Until() (ctx context.Context, release func())
	// Opens fails with [ostiary.ErrForbidden] if the caller may not use a door, and
	// Through returns what the caller may do through it.
	Opens(ctx context.Context, door string) error
	Through(door string) ostiary.Access
}
