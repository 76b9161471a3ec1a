package identity

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/identity/totp"
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
// right is called.
func (g *guesses) allowed(user string, step int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if step != g.step || g.wrong == nil {
		g.step, g.wrong = step, map[string]int{}
	}
	g.wrong[user]++
	return g.wrong[user] <= guessesMax
}

// right forgets a try, because its password was right.
func (g *guesses) right(user string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wrong[user] > 0 {
		g.wrong[user]--
	}
}

// LoginTOTP verifies a one-time password of a user, with the user's credentials of
// type [TypeTOTP]. A password is accepted once, also by several servers of one store
// and after a restart. It fails with Unauthorized.
func (s *Service) LoginTOTP(ctx context.Context, id, passcode string) (*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	user, err := d.get(User, id)
	if err != nil {
		return nil, unauthorized(err.Error())
	}
	seeds := slices.DeleteFunc(d.referring(link{User, user.ID}, Credential), func(c *Record) bool { return c.Members.Text("type") != TypeTOTP })
	if len(seeds) > 0 && !s.guesses.allowed(user.ID, totp.Step(s.now())) {
		return nil, unauthorized("too many wrong one-time passwords of user " + user.ID)
	}
	for _, c := range seeds {
		step, err := s.matchTOTP(ctx, c, passcode)
		if err != nil {
			return nil, err
		}
		if step == 0 {
			continue
		}
		s.guesses.right(user.ID)
		if !s.active(d, user) {
			return nil, unauthorized("user " + user.ID + " or its domain is disabled")
		}
		return user, s.useTOTP(ctx, c.ID, step)
	}
	return nil, unauthorized("wrong one-time password of user " + user.ID)
}

// matchTOTP returns the step of a password for a credential, or 0 if it is wrong.
func (s *Service) matchTOTP(ctx context.Context, c *Record, passcode string) (int64, error) {
	text, err := s.reveal(ctx, c)
	if errors.Is(err, &Error{Reason: NotFound}) { // deleted meanwhile
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	seed, err := totp.ParseSeed(text)
	if err != nil { // no password fits a seed that is malformed
		return 0, nil
	}
	step, _ := seed.Match(passcode, s.now(), c.UsedStep)
	return step, nil
}

// useTOTP stores that the password of a step was used. It fails with Unauthorized
// if this or a later one was used meanwhile.
func (s *Service) useTOTP(ctx context.Context, id string, step int64) error {
	_, err := s.together(ctx, func(d *directory) (ostiary.WriteRequest, error) {
		c, err := d.get(Credential, id)
		if err != nil || c.UsedStep >= step {
			return ostiary.WriteRequest{}, unauthorized("the one-time password was used before")
		}
		x := *c
		x.UsedStep = step
		return ostiary.WriteRequest{Documents: []ostiary.Document{x.document()}}, nil
	})
	return err
}
