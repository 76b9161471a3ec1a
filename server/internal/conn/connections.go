package conn

import (
	"cmp"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/door"
)

const (
	// evictedShare: when a bound on connections is reached, the first 1/32 of the
	// connections that may be closed are closed together, so that a flood of new
	// connections does not search all connections for each of them.
	evictedShare = 32
	// untrustedShare: an eighth of each bound on connections stays for those on which
	// no request was accepted yet.
	untrustedShare = 8
	untrustedMax   = 1024 // bounds that part, and the number of such connections
	// chanceTime is how long a connection is preferred to those that have shown what
	// they do: its first request may be on its way.
	chanceTime = time.Second
	// fullTime is how long a search for idle connections that found none holds.
	fullTime = 100 * time.Millisecond
)

// Connections are the open connections of all ports, or of the port of metrics. They
// are bounded in total and per remote address. A part of each bound stays for untrusted
// connections, on which no request was accepted yet; they may use more while the others
// do not need it.
//
// A new connection is untrusted. It always gets a place: another untrusted connection
// is closed for it, whatever that one does, see evictUntrusted. When a request on it is
// accepted, it moves to the trusted ones. These are closed only while they are idle, the
// longest idle first, to make room for another trusted one. So callers without a key can
// only keep out each other. With the first key of a server that was open until then, all
// connections become untrusted.
//
// Its methods may be called concurrently.
type Connections struct {
	Bounds
	UntrustedMax int // the bound of untrusted connections
	reserve      int // the part of max that trusted connections cannot take

	Unsent  unsentBytes  // of all connections
	Refused atomic.Int64 // new connections that were closed at once
	Evicted atomic.Int64 // connections that were closed to make room
	// Unauthenticated are connections that were closed because too many of their
	// refusals waited. waiting is how many wait on all connections.
	Unauthenticated atomic.Int64
	waiting         atomic.Int32
	paced           atomic.Int32 // refusals because of limits that wait, see Pace
	Standings       *standings   // of the addresses

	mu        sync.Mutex
	all       map[*Conn]struct{}
	untrusted map[*Conn]struct{}
	byAddress map[netip.Addr]*addressCount
	serials   int64     // how many were added
	full      time.Time // see fullTime; until then, no trusted connection is idle
	http      int       // how many of them are on HTTP ports
}

// addressCount counts the connections of one address.
type addressCount struct {
	open, trusted int
	full          time.Time // as in connections, for those of the address
}

// Bounds are the settings of connections.
type Bounds struct {
	Max, PerAddress                  int
	HeaderTimeout                    time.Duration
	UnsentTotal, UnsentPerConnection int64
	// Accepted reports whether the first bytes of a connection show an accepted key. It
	// decides only which connections wait, so it may be wrong.
	Accepted func(head []byte) bool
	// FrameClock tells the time to the bounds of frames; nil means [time.Now].
	FrameClock func() time.Time
}

func NewConnections(b Bounds) *Connections {
	if b.FrameClock == nil {
		b.FrameClock = time.Now
	}
	return &Connections{Bounds: b, UntrustedMax: min(b.Max, untrustedMax), reserve: max(untrustedPart(b.Max), 1),
		Unsent: unsentBytes{Max: b.UnsentTotal, PerConnection: b.UnsentPerConnection},
		all:    map[*Conn]struct{}{}, untrusted: map[*Conn]struct{}{}, byAddress: map[netip.Addr]*addressCount{},
		Standings: newStandings()}
}

// untrustedPart returns the part of a bound that stays for untrusted connections.
func untrustedPart(bound int) int { return min(bound/untrustedShare, untrustedMax) }

// OpenHTTP returns how many connections of HTTP ports are open. gRPC ports need
// no such count, because a graceful stop of grpc-go waits for its own
// connections.
func (c *Connections) OpenHTTP() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.http
}

// Open returns how many connections are open.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// Listener returns a listener that accepts the connections of l within the
// bounds. isHTTP is true for HTTP ports.
func (c *Connections) Listener(l net.Listener, isHTTP bool) net.Listener {
	return boundedListener{l, c, isHTTP}
}

type boundedListener struct {
	net.Listener
	connections *Connections
	http        bool
}

// Accept waits for the next connection that the bounds allow. It closes those
// that they do not allow.
func (l boundedListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := New(raw, l.connections, l.http)
		added, crowded := l.connections.Add(c)
		if crowded {
			runtime.Gosched() // first, the others get their turn to show a credential
		}
		if added {
			boundSocket(raw)
			return c, nil
		}
		l.connections.Refused.Add(1)
		raw.Close()
	}
}

// Add adds a new connection, and closes others if that is needed. It reports
// whether the bounds allow the connection, and whether others were closed.
func (c *Connections) Add(n *Conn) (added, crowded bool) {
	var closing []*Conn
	defer func() { closeAll(closing) }()
	c.mu.Lock()
	defer c.mu.Unlock()
	same := func(old *Conn) bool { return old.Address == n.Address }
	if at := c.byAddress[n.Address]; at != nil && at.open >= c.PerAddress {
		if closing = c.evictUntrusted(same, at.open-at.trusted); closing == nil {
			closing = c.evictIdle(same)
		}
		if closing == nil {
			return false, false
		}
	}
	if len(c.untrusted) >= c.UntrustedMax || len(c.all) >= c.Max {
		closing = append(closing, c.evictUntrusted(func(*Conn) bool { return true }, len(c.untrusted))...)
	}
	c.serials++
	n.serial = c.serials
	c.all[n], c.untrusted[n] = struct{}{}, struct{}{}
	at := c.byAddress[n.Address]
	if at == nil {
		at = &addressCount{}
		c.byAddress[n.Address] = at
	}
	at.open++
	if n.http {
		c.http++
	}
	return true, closing != nil
}

// trust is [Conn.Trust].
func (c *Connections) trust(n *Conn) *door.Refusal {
	var closing []*Conn
	defer func() { closeAll(closing) }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, untrusted := c.untrusted[n]; !untrusted {
		return nil // it was closed, or another request has done it
	}
	at := c.byAddress[n.Address]
	if most := c.PerAddress - untrustedPart(c.PerAddress); at.trusted >= most {
		found := c.evictIdleAgain(&at.full, func(old *Conn) bool { return old.Address == n.Address })
		if found == nil {
			return &door.Refusal{Reason: door.TooMany, Bound: "TrustedConnectionsPerAddress", Limit: int64(most)}
		}
		closing = found
	}
	if most := c.Max - c.reserve; len(c.all)-len(c.untrusted) >= most {
		found := c.evictIdleAgain(&c.full, func(*Conn) bool { return true })
		if found == nil {
			return &door.Refusal{Reason: door.TooMany, Bound: "TrustedConnectionsMax", Limit: int64(most)}
		}
		closing = append(closing, found...)
	}
	delete(c.untrusted, n)
	at.trusted++
	n.Trusted.Store(true)
	return nil
}

// DistrustAll makes all connections untrusted: what was accepted on them no longer counts.
// The next request that is accepted makes its connection trusted again.
func (c *Connections) DistrustAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.all {
		c.distrustLocked(n)
	}
}

// Distrust makes one connection untrusted.
func (c *Connections) Distrust(n *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.distrustLocked(n)
}

func (c *Connections) distrustLocked(n *Conn) {
	if _, open := c.all[n]; !open || !n.Trusted.Load() {
		return
	}
	c.untrusted[n] = struct{}{}
	c.byAddress[n.Address].trusted--
	n.Trusted.Store(false)
}

func closeAll(closing []*Conn) {
	for _, old := range closing {
		old.Close()
	}
}

// evictUntrusted removes some of the n untrusted connections that match, and returns
// them, or nil if n is 0. Of the addresses, that with the most of them loses one first;
// of its connections, the one with the greatest hunger: it is the oldest, or has sent
// the most requests, or holds the most bytes. Those that wait for their first request
// come last. The caller holds mu and closes them.
func (c *Connections) evictUntrusted(match func(*Conn) bool, n int) (closing []*Conn) {
	return c.evictHungriest(match, max(n/evictedShare, 1))
}

// evictHungriest is evictUntrusted for at most n connections.
func (c *Connections) evictHungriest(match func(*Conn) bool, n int) (closing []*Conn) {
	type candidate struct {
		*Conn
		hunger float64
		fresh  bool
		rest   int // the candidates of its address, without those that go before it
	}
	var found []candidate
	now := time.Now()
	for old := range c.untrusted {
		if match(old) {
			hunger, fresh := old.hunger(now)
			found = append(found, candidate{Conn: old, hunger: hunger, fresh: fresh})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(a.Address.Compare(b.Address), hungrier(b.fresh, a.fresh), cmp.Compare(a.hunger, b.hunger), cmp.Compare(b.serial, a.serial))
	})
	for i := range found {
		found[i].rest = 1
		if i > 0 && found[i].Address == found[i-1].Address {
			found[i].rest += found[i-1].rest
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(b.rest-a.rest, hungrier(a.fresh, b.fresh), cmp.Compare(b.hunger, a.hunger), cmp.Compare(a.serial, b.serial))
	})
	for _, old := range found[:min(n, len(found))] {
		closing = append(closing, old.Conn)
	}
	c.evict(closing)
	return closing
}

// hungrier compares two candidates: one that is not fresh comes first.
func hungrier(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// evictIdle removes the longest idle of the trusted connections that match, and returns
// them, or nil if none is idle. The caller holds mu and closes them.
func (c *Connections) evictIdle(match func(*Conn) bool) (closing []*Conn) {
	type idle struct {
		*Conn
		since int64
	}
	var found []idle
	for old := range c.all {
		if old.Trusted.Load() && old.busy.Load() == 0 && match(old) {
			found = append(found, idle{old, old.idleSince.Load()})
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b idle) int { return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.serial, b.serial)) })
	for _, old := range found[:max(len(found)/evictedShare, 1)] {
		closing = append(closing, old.Conn)
	}
	c.evict(closing)
	return closing
}

// evictIdleAgain is evictIdle, but returns nil without a search until full, which it
// sets when it finds none.
func (c *Connections) evictIdleAgain(full *time.Time, match func(*Conn) bool) []*Conn {
	now := time.Now()
	if now.Before(*full) {
		return nil
	}
	closing := c.evictIdle(match)
	if closing == nil {
		*full = now.Add(fullTime)
	}
	return closing
}

// evictPublic closes an untrusted connection that has requests for what is public, to
// make room for one on own: a stream, or another request. It reports whether there is
// one.
func (c *Connections) evictPublic(own *Conn, stream bool) bool {
	c.mu.Lock()
	closing := c.evictHungriest(func(old *Conn) bool {
		streams := old.watches.Load()
		if stream {
			return old != own && streams > 0
		}
		return old != own && old.public.Load() > streams
	}, 1)
	c.mu.Unlock()
	closeAll(closing)
	return len(closing) > 0
}

// evict removes connections and counts them. The caller holds mu.
func (c *Connections) evict(closing []*Conn) {
	for _, old := range closing {
		c.removeLocked(old)
	}
	c.Evicted.Add(int64(len(closing)))
}

// remove removes a connection. It does nothing if the connection was removed
// before.
func (c *Connections) remove(old *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(old)
}

func (c *Connections) removeLocked(old *Conn) {
	if _, open := c.all[old]; !open {
		return
	}
	delete(c.all, old)
	at := c.byAddress[old.Address]
	if _, untrusted := c.untrusted[old]; untrusted {
		delete(c.untrusted, old)
	} else {
		at.trusted--
	}
	if at.open--; at.open == 0 {
		delete(c.byAddress, old.Address)
	}
	if old.http {
		c.http--
	}
}

// CloseQuiet ends the connections of HTTP ports on which no request is in flight
// or on its way. It keeps those that were not quiet before, at the last call,
// because a request may be between two steps of net/http. It returns the
// connections that are quiet now and how many are left, with those that are
// ending.
//
// It does not close a connection, because its goroutine may have read a request
// that is not in flight yet, or may not have sent the end of a response, however
// long ago that was: the system can suspend it at any time. It ends the goroutine's
// next read instead, so that net/http closes the connection if it waits for a
// request.
func (c *Connections) CloseQuiet(before map[*Conn]bool) (quiet map[*Conn]bool, left int) {
	quiet = map[*Conn]bool{}
	since := time.Now().Add(-headGrace).UnixNano()
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.all {
		if !old.http {
			continue
		}
		left++
		if at := old.arrived.Load(); old.busy.Load() > 0 || at > since || readable(old.Conn) {
			continue
		}
		quiet[old] = true
		if before[old] {
			_ = old.SetReadDeadline(time.Unix(1, 0))
		}
	}
	return quiet, left
}

// headGrace is how long a stopping server waits for the rest of a request's
// head.
const headGrace = time.Second

// stalled returns the connection with the most unsent bytes among those that
// have sent nothing for at least d, or nil if there is none.
func (c *Connections) stalled(d time.Duration) (found *Conn) {
	before, most := time.Now().Add(-d).UnixNano(), int64(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.all {
		if n := old.unsentSince(before); n > most {
			found, most = old, n
		}
	}
	return found
}
