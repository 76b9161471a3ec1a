package identity

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/token"
)

// proof is what the verifications of one request rest on: the passwords, secrets,
// tokens and receipts that were accepted, as they were when they were read. A
// verification takes time, a password hash some 300 ms, and others can change
// meanwhile what it rests on. So each write and each new token of the request
// compares the proof with the state that it is decided on. Its methods may be
// called concurrently.
type proof struct {
	address string // of the client

	mu    sync.Mutex
	rests []rest
	known string // id of the user, after something was verified
}

// rest is one thing that a proof rests on. It fails with Unauthorized if that is
// not as it was any more. It reads nothing but the directory.
type rest func(s *Service, d *directory) error

// proofKey is the key of the proof in the context of a request.
type proofKey struct{}

// WithProof begins the proof of one request. What is verified with the returned
// context (a password, a one-time password, a secret, a signature, a token, a
// receipt) is compared with the newest state by each later call with it: writes, new
// tokens and new receipts fail with Unauthorized if it has changed or ended
// meanwhile. So a new password is final once its write is acknowledged, also for
// logins that are in progress.
//
// address is the address of the client, with or without a port; "" if it is not known.
// Addresses and users take turns when password hashes wait (see [password.Pool]).
func WithProof(ctx context.Context, address string) context.Context {
	return context.WithValue(ctx, proofKey{}, &proof{address: network(address)})
}

// network returns what an address counts as in turns: an address of IPv4, or the
// network of 64 bits of an address of IPv6, of which one client may have all.
func network(address string) string {
	if a, err := netip.ParseAddrPort(address); err == nil {
		address = a.Addr().String()
	}
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

// forUser returns a context whose hashes are computed for the client of a request, and
// for a user: the one who is known, or else the one whom the text names.
func forUser(ctx context.Context, user string) context.Context {
	p, ok := ctx.Value(proofKey{}).(*proof)
	if !ok {
		return password.WithCaller(ctx, password.Caller{User: user})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return password.WithCaller(ctx, password.Caller{Address: p.address, User: cmp.Or(p.known, user), Known: p.known != ""})
}

// proving returns ctx if it has a proof, or a context with a new one. A call that
// verifies and then writes by itself uses it.
func proving(ctx context.Context) context.Context {
	if ctx.Value(proofKey{}) != nil {
		return ctx
	}
	return WithProof(ctx, "")
}

// rely adds to the proof of a request, and returns the newest directory. It fails
// with Unauthorized if what is added does not hold on it.
func (s *Service) rely(ctx context.Context, on ...rest) (*directory, error) {
	if p, ok := ctx.Value(proofKey{}).(*proof); ok {
		p.mu.Lock()
		p.rests = append(p.rests, on...)
		p.mu.Unlock()
	}
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	return d, s.hold(d, on)
}

// proven fails with Unauthorized if something that a request's proof rests on does
// not hold on a directory.
func (s *Service) proven(ctx context.Context, d *directory) error {
	p, ok := ctx.Value(proofKey{}).(*proof)
	if !ok {
		return nil
	}
	p.mu.Lock()
	rests := slices.Clone(p.rests)
	p.mu.Unlock()
	return s.hold(d, rests)
}

func (s *Service) hold(d *directory, rests []rest) error {
	for _, holds := range rests {
		if err := holds(s, d); err != nil {
			return err
		}
	}
	return nil
}

// secretVersion returns a text that is another one each time that the password or
// the secret of the record is set.
func (r *Record) secretVersion() string {
	if r.Password != nil {
		return r.Password.Changed.Format(time.RFC3339Nano) + " " + r.SecretVersion
	}
	return r.SecretVersion
}

// secretOfRecord rests on the password or the secret of a record, as it is in the
// record.
func secretOfRecord(r *Record) rest {
	version := r.secretVersion()
	return func(_ *Service, d *directory) error {
		newest, err := d.get(r.Kind, r.ID)
		if err != nil {
			return unauthorized(err.Error())
		}
		if newest.secretVersion() != version {
			return unauthorized("the secret of " + string(r.Kind) + " " + r.ID + " was changed while it was verified")
		}
		return nil
	}
}

// validToken rests on a token: it is not revoked, and its user and what it was made
// with can be used.
func validToken(t *Token) rest {
	return func(s *Service, d *directory) error {
		if _, err := s.resolve(d, t.Payload, t.Issued); err != nil {
			return notValid(err)
		}
		return nil
	}
}

// validReceipt rests on a receipt: the tokens of its user were not revoked since.
func validReceipt(r *token.Receipt, issued time.Time) rest {
	return func(_ *Service, d *directory) error {
		if d.revocations.revokedUser(r.UserID, issued) {
			return unauthorized("the receipt is older than the last revocation of the user's tokens")
		}
		return nil
	}
}

// RelyOn adds a valid token to the proof of a request (see [WithProof]). It fails
// with Unauthorized if the token was revoked meanwhile.
func (s *Service) RelyOn(ctx context.Context, t *Token) error {
	_, err := s.rely(ctx, validToken(t))
	if err == nil {
		knownAs(ctx, t.User.ID)
	}
	return err
}

// knownAs notes the user whom a request has authenticated.
func knownAs(ctx context.Context, user string) {
	if p, ok := ctx.Value(proofKey{}).(*proof); ok {
		p.mu.Lock()
		p.known = user
		p.mu.Unlock()
	}
}

// renewed returns a token as it is on a directory, with those of its roles that it
// still has. It fails with Unauthorized if it is not valid any more.
func (s *Service) renewed(ctx context.Context, d *directory, t *Token) (*Token, error) {
	x, err := s.expandOn(ctx, d, t.Payload, t.Issued)
	if err != nil {
		return nil, notValid(err)
	}
	x.Roles = slices.DeleteFunc(x.Roles, func(r *Record) bool {
		return !slices.ContainsFunc(t.Roles, func(had *Record) bool { return had.ID == r.ID })
	})
	return x, nil
}

// notValid returns the error of a token that is not valid any more. An error of the
// store stays.
func notValid(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	return unauthorized("the token is not valid any more: " + err.Error())
}
