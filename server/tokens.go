package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/server/internal/conn"
	"github.com/ostiary/ostiary/storage"
)

const (
	// tokensMax is the largest number of verified tokens that are remembered.
	tokensMax = 10_000
	// tokenWait is how long a request waits for the keys of a provider.
	tokenWait = 3 * time.Second
	// refusalBytesMax bounds the reason of a refused token in the log, which may quote
	// names of its claims.
	refusalBytesMax = 512
	// refusedOriginsMax bounds the addresses whose refused tokens are logged apart.
	refusedOriginsMax = 1000
)

// tokens verifies the tokens of OpenID Connect providers, and remembers those that are
// valid until they end. Its methods may be called concurrently.
type tokens struct {
	verifier *oidc.Verifier
	stored   *callers.Registry // the keys that match tokens

	log     *slog.Logger
	refused logins.Counter[string] // by the address of the caller

	mu    sync.RWMutex
	known map[[sha256.Size]byte]*token
}

// token is a verified token.
type token struct{ credential }

// newTokens returns the tokens of a verifier, or nil if v or stored is nil. log gets the
// reasons of refused tokens.
func newTokens(v *oidc.Verifier, stored *callers.Registry, log *slog.Logger) *tokens {
	if v == nil || stored == nil {
		return nil
	}
	t := &tokens{verifier: v, stored: stored, log: log, known: map[[sha256.Size]byte]*token{}}
	t.refused.Max, t.refused.Rest = refusedOriginsMax, "further addresses"
	t.refused.Counted = func(remote string, times int, _, _ time.Time) {
		log.Info("more tokens refused", "remote", remote, "times", times)
	}
	return t
}

// refuse logs why a token is refused, which the response does not contain: for the first
// one of each address in a [logins.Window].
func (t *tokens) refuse(ctx context.Context, why string) {
	remote := "unknown"
	if c := conn.In(ctx); c != nil {
		remote = logins.HostOf(c.RemoteAddr().String())
	}
	if o, first := t.refused.First(remote); first {
		t.log.Info("token refused", "remote", o, "why", quote.Of(why, refusalBytesMax))
	}
}

// close logs what was counted and not logged yet. t may be nil.
func (t *tokens) close() {
	if t != nil {
		t.refused.Close()
	}
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
	key, why := known.find(ctx, t.stored)
	if why == door.BadCredentials {
		t.forget(sum)
	}
	return key, why
}

// verify verifies a token.
func (t *tokens) verify(ctx context.Context, text string) (*token, door.Reason) {
	ctx, cancel := context.WithTimeout(ctx, tokenWait)
	defer cancel()
	v, err := t.verifier.Verify(ctx, text)
	switch {
	case errors.Is(err, oidc.ErrInvalid):
		t.refuse(ctx, err.Error())
		return nil, door.BadCredentials
	case err != nil:
		return nil, door.Unsure
	case v.Subject == "" || !validName(v.Issuer+issuerEnd+v.Subject):
		t.refuse(ctx, fmt.Sprintf("%s: claim sub: expected a text that, behind the issuer and #, has at most %d bytes of UTF-8 without control characters", oidc.ErrInvalid, storage.CallerBytesMax))
		return nil, door.BadCredentials
	}
	fulfills := func(m callers.Match) bool {
		return m.Issuer == v.Issuer && slices.Contains(oidc.Values(m.In(v.Claims)), m.Value)
	}
	return &token{credential{author: v.Issuer + issuerEnd + v.Subject, ends: v.Ends, fulfills: fulfills}}, 0
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
