package identity

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity/totp"
)

// guessesMax is the largest number of wrong one-time passwords of a user in one
// period. After it, the user's passwords are refused until the next period. So a
// guess is right after 35 days on average, as two passwords are valid at a time.
const guessesMax = 5

// guesses counts the wrong one-time passwords of the current period. The zero
// value is ready to use, and may be used concurrently.
type guesses struct {
	mu    sync.Mutex
	step  int64
	wrong map[string]int // by user; only users who have a seed
}

// allowed returns whether a user may try a password, and counts it as wrong until
// forget is called.
func (g *guesses) allowed(user string, step int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if step != g.step || g.wrong == nil {
		g.step, g.wrong = step, map[string]int{}
	}
	g.wrong[user]++
	return g.wrong[user] <= guessesMax
}

// forget forgets a try, because its password was right or was not compared.
func (g *guesses) forget(user string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wrong[user] > 0 {
		g.wrong[user]--
	}
}

// LoginTOTP verifies a one-time password of a user, with the user's credentials of
// type [TypeTOTP]. A password is accepted once, also by several servers of one store
// and after a restart. It fails with Unauthorized. A password that could not be
// compared with any seed is no guess; the error of a store that fails is returned.
func (s *Service) LoginTOTP(ctx context.Context, id, passcode string) (*Record, error) {
	ctx = proving(ctx)
	if err := s.lead(ctx); err != nil { // which counts guesses
		return nil, err
	}
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	user, err := d.get(User, id)
	if err != nil {
		return nil, unauthorized(err.Error())
	}
	seeds := slices.DeleteFunc(d.referring(link{User, user.ID}, Credential), func(c *Record) bool { return c.Members.Text("type") != TypeTOTP })
	if len(seeds) == 0 {
		return nil, unauthorized("wrong one-time password: user " + user.ID + " has no seed")
	}
	if !s.guesses.allowed(user.ID, totp.Step(s.now())) {
		return nil, unauthorized("too many wrong one-time passwords of user " + user.ID)
	}
	m, err := s.matchTOTP(ctx, seeds, passcode)
	if m.step != 0 || !m.compared {
		s.guesses.forget(user.ID)
	}
	switch {
	case err != nil:
		return nil, err
	case !m.compared:
		return nil, unauthorized("no seed of one-time passwords of user " + user.ID + " can be read: expected base32")
	case m.step == 0:
		return nil, unauthorized("wrong one-time password of user " + user.ID)
	}
	if d, err = s.rely(ctx, secretOfRecord(m.credential)); err != nil {
		return nil, err
	}
	if user, err = d.get(User, id); err != nil {
		return nil, unauthorized(err.Error())
	}
	if !s.active(d, user) {
		return nil, unauthorized("user " + user.ID + " or its domain is disabled")
	}
	ActAs(ctx, user.ID)
	return user, s.useTOTP(ctx, m.credential.ID, m.step)
}

// matched is the result of comparing a password with seeds.
type matched struct {
	credential *Record // the one that the password fits; nil if it fits none
	step       int64   // step of the password; 0 if it fits no seed
	compared   bool    // it was compared with at least one seed, also if an error follows
}

// matchTOTP compares a password with the seeds of credentials. It skips those that
// are malformed or were deleted meanwhile, which no password fits.
func (s *Service) matchTOTP(ctx context.Context, credentials []*Record, passcode string) (m matched, err error) {
	for _, c := range credentials {
		text, err := s.reveal(ctx, c)
		if errors.Is(err, &Error{Reason: NotFound}) {
			continue
		}
		if err != nil {
			return m, err
		}
		seed, err := totp.ParseSeed(text)
		if err != nil {
			continue
		}
		m.compared = true
		if step, ok := seed.Match(passcode, s.now(), c.UsedStep); ok {
			m.credential, m.step = c, step
			return m, nil
		}
	}
	return m, nil
}

// useTOTP stores that the password of a step was used. It fails with Unauthorized
// if this or a later one was used meanwhile.
func (s *Service) useTOTP(ctx context.Context, id string, step int64) error {
	_, err := s.together(ctx, func(d *directory) (authz.WriteRequest, error) {
		c, err := d.get(Credential, id)
		if err != nil || c.UsedStep >= step {
			return authz.WriteRequest{}, unauthorized("the one-time password was used before")
		}
		x := *c
		x.UsedStep = step
		return authz.WriteRequest{Documents: []authz.Document{x.document()}}, nil
	})
	return err
}
