package conn

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// framesPerConnection and framesPerAddress are how many frames of HTTP/2 the
	// connections without an accepted request may send at once, each of them and those
	// of one address together. Each second, framesPerSecond and
	// framesPerAddressSecond more are allowed.
	framesPerConnection    = 2_000
	framesPerSecond        = 1_000
	framesPerAddress       = 8_000
	framesPerAddressSecond = 2_000
	// framesLot is how many frames are counted together. The first of each connection
	// count for no address.
	framesLot = 100
	// framesPerAnswer is how many more frames a connection may send after each request
	// that was answered, unless other requests without a key were in its way: a client that
	// does not wait for their answers earns nothing.
	framesPerAnswer = 10

	// refusalsPerAddress is how many requests without accepted credentials an address
	// may send at once before they are delayed, and refusalsPerSecond how many more
	// each second, on all its connections on which no request was accepted.
	refusalsPerAddress = 100
	refusalsPerSecond  = 10

	// GuessesMax is how many wrong passwords of a user an address may send at once over
	// HTTP Basic authentication, and guessTime the time after which it may send one
	// more. Until then the passwords that it sends for this user are refused, right or
	// wrong.
	GuessesMax = 20
	guessTime  = 10 * time.Second
	// guessedMax bounds the users of an address that are counted apart. Further ones
	// are counted together.
	guessedMax = 10

	// After an address has flooded the server with frames, each new connection from it waits
	// floodWait before it is read, twice as long after each further flood, at most
	// floodWaitMax. floodsForgotten is the time after which the floods of an address are
	// forgotten.
	floodWait       = 100 * time.Millisecond
	floodWaitMax    = 4 * time.Second
	floodsForgotten = time.Minute
	// floodWaiting bounds the connections of one address that wait; further ones are
	// closed.
	floodWaiting = 16

	// standingsMax bounds the addresses that are counted apart. Further ones are
	// counted together.
	standingsMax = 10_000
	// standingsSweep is the shortest time between two searches for addresses that need
	// not be counted any more.
	standingsSweep = time.Second
)

// standings are what addresses have sent without an accepted credential. It is
// memory of this process alone: each node of a store counts for itself. Its methods
// may be called concurrently.
type standings struct {
	mu     sync.Mutex
	all    map[netip.Addr]*standing
	others *standing // of the addresses that are counted together
	swept  time.Time // the last search
}

// standing is what one address has sent.
type standing struct {
	frames, refusals leak
	guesses          map[string]*guessed // by user; "" is all further ones
	floods           int                 // until they were forgotten
	flooded          time.Time           // the last of them
	waiting          int                 // connections that wait, see floodWait
	delayed          int                 // refusals that wait, see DelayRefusal
}

// guessed are the wrong passwords of a user.
type guessed struct {
	leak
	locked bool // passwords were refused since there were none
}

// leak is a number that decreases with time, but not below 0.
type leak struct {
	level float64
	at    time.Time // when level was right
}

// add adds n and returns the number. perSecond is by how much it decreases.
func (l *leak) add(n, perSecond float64, now time.Time) float64 {
	if !l.at.IsZero() {
		l.level = max(l.level-perSecond*now.Sub(l.at).Seconds(), 0)
	}
	l.level, l.at = l.level+n, now
	return l.level
}

// refused adds n, unless the number would then exceed most.
func (l *leak) refused(n, most, perSecond float64, now time.Time) bool {
	if l.add(0, perSecond, now)+n > most {
		return true
	}
	l.level += n
	return false
}

func newStandings() *standings {
	return &standings{all: map[netip.Addr]*standing{}, others: &standing{}}
}

// of returns the standing of an address. The caller holds mu.
func (s *standings) of(address netip.Addr, now time.Time) *standing {
	if at := s.all[address]; at != nil {
		return at
	}
	if len(s.all) >= standingsMax && now.Sub(s.swept) >= standingsSweep {
		s.swept = now
		for a, at := range s.all {
			if at.clean(now) {
				delete(s.all, a)
			}
		}
	}
	if len(s.all) >= standingsMax {
		return s.others
	}
	at := &standing{}
	s.all[address] = at
	return at
}

// clean reports whether nothing of the address has to be remembered.
func (at *standing) clean(now time.Time) bool {
	for user, g := range at.guesses {
		if g.add(0, 1/guessTime.Seconds(), now) == 0 {
			delete(at.guesses, user)
		}
	}
	return at.waiting == 0 && at.delayed == 0 && len(at.guesses) == 0 && now.Sub(at.flooded) > floodsForgotten &&
		at.frames.add(0, framesPerAddressSecond, now) == 0 && at.refusals.add(0, refusalsPerSecond, now) == 0
}

// flood counts a flood.
func (at *standing) flood(now time.Time) {
	if now.Sub(at.flooded) > floodsForgotten {
		at.floods = 0
	}
	at.floods, at.flooded = at.floods+1, now
}

// takeFrames counts frames, and reports whether the address may send them. Otherwise
// it has flooded the server, and they are not counted.
func (s *standings) takeFrames(address netip.Addr, n int, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.of(address, now)
	if at.frames.refused(float64(n), framesPerAddress, framesPerAddressSecond, now) {
		at.flood(now)
		return false
	}
	return true
}

// refuse counts a refusal, and returns how long it has to wait because of the others of
// its address. If it does, the caller calls endRefusal afterwards; at is nil if
// delayedPerAddress of them wait already.
func (s *standings) refuse(address netip.Addr) (at *standing, wait time.Duration) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	at = s.of(address, now)
	level := at.refusals.add(1, refusalsPerSecond, now) - refusalsPerAddress
	at.refusals.level = min(at.refusals.level, refusalsPerAddress+refusalsLongest)
	if wait = refusalWait(level); wait > 0 {
		if at.delayed >= delayedPerAddress {
			return nil, wait
		}
		at.delayed++
	}
	return at, wait
}

// endRefusal ends the wait of a refusal.
func (s *standings) endRefusal(at *standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.delayed--
}

// floodWait returns how long a new connection has to wait, 0 if its address has not
// flooded the server.
func (s *standings) floodWait(address netip.Addr) time.Duration {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.all[address]
	if at == nil || at.floods == 0 || now.Sub(at.flooded) > floodsForgotten {
		return 0
	}
	return min(floodWait<<min(at.floods-1, 10), floodWaitMax)
}

// beginWait takes a place for a connection that waits, or returns nil if its address
// has none left. The caller calls endWait afterwards.
func (s *standings) beginWait(address netip.Addr) *standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.of(address, time.Now())
	if at.waiting >= floodWaiting {
		return nil
	}
	at.waiting++
	return at
}

// endWait ends the wait of a connection.
func (s *standings) endWait(at *standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.waiting--
}

// Guess counts a password of a user, if it is wrong. It reports whether the password has
// to be refused, right or wrong, and whether it is the first one since the address had
// sent no wrong one.
func (s *standings) Guess(address netip.Addr, user string, wrong bool) (refused, first bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.of(address, now)
	if at.guesses[user] == nil && len(at.guesses) >= guessedMax {
		user = ""
	}
	g := at.guesses[user]
	if g == nil && !wrong {
		return false, false
	}
	if g == nil {
		g = &guessed{}
		if at.guesses == nil {
			at.guesses = map[string]*guessed{}
		}
		at.guesses[user] = g
	}
	if g.add(0, 1/guessTime.Seconds(), now) == 0 {
		g.locked = false
	}
	if g.level+1 > GuessesMax {
		first, g.locked = !g.locked, true
		return true, first
	}
	if wrong {
		g.level++
	}
	return false, false
}
