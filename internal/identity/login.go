package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"sync"

	"github.com/ostiary/ostiary/internal/identity/password"
)

// Methods of authentication that [Service] offers.
const (
	MethodPassword = "password"
	MethodToken    = "token"
	MethodTOTP     = "totp"          // a one-time password of RFC 6238
	MethodEC2      = "ec2credential" // a request that is signed with an EC2 credential
	MethodOAuth1   = "oauth1"        // a request that is signed with an OAuth 1 access token
)

// unauthorized returns the error of a login whose credentials are refused. Its
// text is for logs; a door shows one text for all such errors.
func unauthorized(text string) error { return &Error{Reason: Unauthorized, Text: text} }

// Login verifies a user's password. name and domain identify the user if id is
// "". It fails with Unauthorized, in the same time whether the user exists or is
// locked or not, with PasswordAge and with Busy.
func (s *Service) Login(ctx context.Context, id, domain, name, secret string) (*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	user := d.find(User, domain, name)
	if id != "" {
		user, _ = d.get(User, id)
	}
	if s.options.Leads != nil && s.mayCount(user) {
		if err := s.lead(ctx); err != nil {
			return nil, err
		}
	}
	var rests []rest
	if user != nil {
		rests = append(rests, secretOfRecord(user))
	}
	hashes, err := s.hashes(ctx, user)
	if err != nil {
		return nil, err
	}
	known := len(hashes) > 0
	if !known {
		hashes = []string{s.decoy()}
	}
	// A user who is locked already takes as long, too.
	locked := known && s.compliance.locked(user, s.activity(user.ID), s.now())
	hashing := forUser(ctx, cmp.Or(id, domain+"/"+name))
	ok, err := s.verify(hashing, secret, hashes[0])
	if err == nil && (!ok || locked) {
		err = s.verifyOthers(hashing, secret, hashes[0])
	}
	switch {
	case errors.Is(err, &Error{Reason: Busy}):
		return nil, err
	case user == nil:
		return nil, unauthorized("no such user")
	case user.Password == nil:
		return nil, unauthorized("user " + user.ID + " has no password")
	case err != nil:
		return nil, err
	case locked:
		return nil, unauthorized("user " + user.ID + " is locked after wrong passwords")
	case !ok:
		if err := s.wrongPassword(ctx, user); err != nil {
			return nil, err
		}
		return nil, unauthorized("wrong password of user " + user.ID)
	}
	if d, err = s.rely(ctx, rests...); err != nil {
		return nil, err
	}
	knownAs(ctx, user.ID)
	if user, err = d.get(User, user.ID); err != nil {
		return nil, unauthorized(err.Error())
	}
	switch {
	case !s.active(d, user):
		return nil, unauthorized("user " + user.ID + " or its domain is disabled")
	case s.rightPassword(user):
		return nil, unauthorized("user " + user.ID + " was locked after wrong passwords meanwhile")
	case user.expired(s.now()):
		return nil, &Error{Reason: PasswordAge, UserID: user.ID, Text: "The password is expired and needs to be changed for user: " + user.ID + "."}
	}
	s.used(user.ID)
	_ = s.rehash(ctx, user, secret, hashes) // otherwise the next login replaces the hash
	return user, nil
}

// decoy returns the hash of a random password. A login of a user that does not
// exist verifies it, and so takes as long as a login of a user that exists.
func (s *Service) decoy() string {
	s.decoyOnce.Do(func() {
		var b [32]byte
		rand.Read(b[:]) // never fails
		text := base64.RawURLEncoding.EncodeToString(b[:])
		s.decoyHash, _ = password.Hash(text, s.rounds()) // the password is short
	})
	return s.decoyHash
}

// verifyOthers compares a wrong password with a hash of each other form that this
// process has seen, so that all wrong logins take equally long, whatever the form of
// the user's hash. It fails with Busy.
func (s *Service) verifyOthers(ctx context.Context, secret, hash string) error {
	for _, other := range s.formsSeen.others(hash, s.decoy()) {
		_, err := s.pool.Verify(ctx, secret, other)
		if b := busy(err); b != nil {
			return b
		}
	}
	return nil
}

// decoyState is the hash of decoy, made on first use, and one hash of each form.
type decoyState struct {
	decoyOnce sync.Once
	decoyHash string
	formsSeen forms
}

// formsMax bounds the forms of hashes that are remembered, because each makes wrong
// logins longer.
const formsMax = 4

// forms are hashes of different forms, in the memory of this process. After a start,
// the first wrong login with a hash of another form therefore still takes another time.
// The methods may be called concurrently.
type forms struct {
	mu   sync.Mutex
	seen []string // one hash of each form
}

// others adds hashes, and returns one of each form that is remembered and not the first
// one's.
func (f *forms) others(hashes ...string) (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, hash := range hashes {
		same := func(seen string) bool { return password.Form(seen) == password.Form(hash) }
		if len(f.seen) < formsMax && !slices.ContainsFunc(f.seen, same) {
			f.seen = append(f.seen, spoiled(hash))
		}
	}
	for _, seen := range f.seen {
		if password.Form(seen) != password.Form(hashes[0]) {
			out = append(out, seen)
		}
	}
	return out
}

// spoiled returns a hash of the same form that no password has.
func spoiled(hash string) string {
	at := len(hash) - 10 // in the digest
	if at < 0 {
		return hash // it is no hash
	}
	other := "a"
	if hash[at] == 'a' {
		other = "b"
	}
	return hash[:at] + other + hash[at+1:]
}
