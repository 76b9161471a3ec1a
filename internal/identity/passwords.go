package identity

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity/password"
)

// secretKind is the kind of the secrets that hold the hashes of passwords. A
// secret has one hash on each line: the current one, and those before it, the
// newest first.
const secretKind = documentPrefix + "password"

// secretOf returns the secret with the hash of a user's password, and the hashes
// before it, of which it keeps as many as the rules need.
func (s *Service) secretOf(user, hash string, before []string) authz.Document {
	return hashSecret(user, hash, before, s.compliance.UniqueCount)
}

// hashSecret returns a secret with at most n hashes, and at least the current one.
func hashSecret(user, hash string, before []string, n int) authz.Document {
	before = before[:min(len(before), max(0, n-1))]
	text := strings.Join(append([]string{hash}, before...), "\n")
	return authz.Document{Kind: secretKind, Key: user, Body: []byte(text)}
}

// hashes returns the hashes of a user's passwords, the current one first; none if
// the user has no password.
func (s *Service) hashes(ctx context.Context, user *Record) ([]string, error) {
	if user == nil || user.Password == nil {
		return nil, nil
	}
	stored, err := s.store.Secret(ctx, authz.DocumentKey{Kind: secretKind, Key: user.ID})
	if err != nil {
		return nil, err
	}
	return strings.Split(string(stored.Body), "\n"), nil
}

// CheckSecrets fails with [authz.ErrNoSecretKey] if the engine has no key, or
// another one, for the secrets of the deployment. It reads the password of one user.
func (s *Service) CheckSecrets(ctx context.Context) (err error) {
	d, err := s.at(ctx)
	if err != nil {
		return err
	}
	users := d.tables[User]
	users.byID.Ascend("", func(_ string, user *Record) bool {
		if user.Password == nil {
			return true
		}
		_, err = s.hashes(ctx, user)
		return false
	})
	return err
}

// rounds returns the rounds of new hashes.
func (s *Service) rounds() int {
	if s.options.Rounds == 0 {
		return password.RoundsDefault
	}
	return s.options.Rounds
}

// hash returns the hash of a new password or secret, or "" without one. It fails with
// Invalid and with Busy.
func (s *Service) hash(ctx context.Context, secret *string) (string, error) {
	if secret == nil {
		return "", nil
	}
	hash, err := s.pool.Hash(forUser(ctx, ""), *secret, s.rounds())
	if err == nil {
		return hash, nil
	}
	if b := busy(err); b != nil {
		return "", b
	}
	return "", &Error{Reason: Invalid, Field: "password", Text: err.Error()}
}

// busy returns the error of a hash that was not computed because others wait, or
// because the request ended first; nil for other errors.
func busy(err error) error {
	if errors.Is(err, password.ErrBusy) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Reason: Busy, Text: "The server has too many logins at the moment: " + err.Error()}
	}
	return nil
}

// verify returns whether a password has a hash. It uses the cache of passwords if
// there is one. It fails with Busy.
func (s *Service) verify(ctx context.Context, secret, hash string) (bool, error) {
	if s.verified.holds(secret, hash, s.now()) {
		return true, nil
	}
	ok, err := s.pool.Verify(ctx, secret, hash)
	if b := busy(err); b != nil {
		return false, b
	}
	if ok {
		s.verified.add(secret, hash, s.now())
	}
	return ok, err
}

// rehash replaces the hash of a password that was just verified, if it has another
// form or cost than new hashes. It does nothing if the password has changed
// meanwhile.
func (s *Service) rehash(ctx context.Context, user *Record, secret string, hashes []string) error {
	if len(secret) > password.BytesMax || !password.Outdated(hashes[0], s.rounds()) {
		return nil
	}
	hash, err := s.pool.Hash(forUser(ctx, user.ID), secret, s.rounds())
	if err != nil {
		return err
	}
	_, err = s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		now, err := d.get(User, user.ID)
		if err != nil || now.secretVersion() != user.secretVersion() {
			return w, err
		}
		w.Secrets = []authz.Document{s.secretOf(user.ID, hash, hashes[1:])}
		return w, nil
	})
	return err
}

// passwordChange is a new password of a user; the zero value keeps the old one.
type passwordChange struct {
	hash    string
	byOwner bool
	// before are the hashes of the user's passwords until now, and version is that of
	// the newest of them.
	before  []string
	version string
}

// newChange computes the hash of a new password; without one it returns the zero
// passwordChange. It fails with Invalid, Busy and NotFound.
func (s *Service) newChange(ctx context.Context, k Kind, id string, secret *string, byOwner bool) (c passwordChange, err error) {
	if secret == nil {
		return c, nil
	}
	d, err := s.at(ctx)
	if err != nil {
		return c, err
	}
	user, err := d.get(k, id)
	if err != nil {
		return c, err
	}
	c.version = user.secretVersion()
	if c.byOwner = byOwner; byOwner {
		if err := s.compliance.mayChange(user, s.now()); err != nil {
			return c, err
		}
	}
	if c.before, err = s.hashes(ctx, user); err != nil {
		return c, err
	}
	if err := s.compliance.check(secret); err != nil {
		return c, err
	}
	if c.hash, err = s.hash(ctx, secret); err == nil && byOwner {
		err = s.checkUnique(ctx, *secret, c.before)
	}
	return c, err
}

// checkUnique fails with Invalid if a password is one of the user's previous ones.
func (s *Service) checkUnique(ctx context.Context, secret string, before []string) error {
	count := s.compliance.UniqueCount
	for _, hash := range before[:min(len(before), count)] {
		same, err := s.pool.Verify(forUser(ctx, ""), secret, hash)
		switch {
		case same:
			return failf(Invalid, "The new password cannot be identical to a previous password. The total number which includes the new password must be unique is %d.", count)
		case err != nil:
			return cmp.Or(busy(err), err)
		}
	}
	return nil
}

// ChangePassword sets a new password of a user who knows the current one. It fails as
// [Service.Login], except that a password that has only expired is accepted, and as
// [Service.Update]. The new password replaces the one that was verified and no other:
// if a password was set meanwhile, ChangePassword fails with Unauthorized.
func (s *Service) ChangePassword(ctx context.Context, id, current, secret string) error {
	ctx = proving(ctx)
	if _, err := s.Login(ctx, id, "", "", current); err != nil && !errors.Is(err, &Error{Reason: PasswordAge}) {
		return err
	}
	ActAs(ctx, id)
	_, err := s.Update(ctx, User, id, &secret, true, func(*Record) error { return nil })
	return err
}

// setPassword adds a new password to a write and to the user's record. It fails
// with Conflict if the password has changed since the hash was computed, because
// the rules were checked for the old one.
func (s *Service) setPassword(old, x *Record, c passwordChange, w *authz.WriteRequest) error {
	if c.hash == "" {
		return nil
	}
	if old.secretVersion() != c.version {
		return failf(Conflict, "the password of user %s was changed at the same time", old.ID)
	}
	x.Password, x.SecretVersion = s.compliance.newPassword(x.options(), c.byOwner, s.now()), newID()
	w.Secrets = []authz.Document{s.secretOf(x.ID, c.hash, c.before)}
	return nil
}

// verifiedMax bounds the passwords that a cache holds.
const verifiedMax = 10_000

// verified is the cache of verified passwords: keyed hashes of pairs of a password
// and its stored hash, whose key is made with the cache. A nil cache holds
// nothing.
type verified struct {
	life time.Duration
	key  [32]byte
	mu   sync.Mutex
	ends map[[32]byte]time.Time
}

// newVerified returns a cache that holds a password for a time, or nil without a
// time.
func newVerified(life time.Duration) *verified {
	if life <= 0 {
		return nil
	}
	v := &verified{life: life, ends: map[[32]byte]time.Time{}}
	rand.Read(v.key[:]) // never fails
	return v
}

// entry returns the key of a pair. Hashes contain no NUL.
func (v *verified) entry(secret, hash string) (e [32]byte) {
	mac := hmac.New(sha256.New, v.key[:])
	mac.Write([]byte(hash + "\x00" + secret))
	mac.Sum(e[:0])
	return e
}

func (v *verified) holds(secret, hash string, now time.Time) bool {
	if v == nil {
		return false
	}
	e := v.entry(secret, hash)
	v.mu.Lock()
	defer v.mu.Unlock()
	return now.Before(v.ends[e])
}

// add adds a pair. A full cache is emptied.
func (v *verified) add(secret, hash string, now time.Time) {
	if v == nil {
		return
	}
	e := v.entry(secret, hash)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.ends) >= verifiedMax {
		clear(v.ends)
	}
	v.ends[e] = now.Add(v.life)
}
