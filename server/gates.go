package server

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/server/internal/conn"
	"github.com/ostiary/ostiary/storage"
)

const (
	// headerReason is the header, in its canonical form, with the reason of the
	// writes of a request, and metadataReason is the same for gRPC. Clients may send
	// either with every request.
	headerReason   = "Ostiary-Reason"
	metadataReason = "ostiary-reason"
	// boundGuesses is the bound of wrong passwords.
	boundGuesses = "WrongPasswordsPerAddress"
)

// gate is a reason to refuse a request before its door gets it. It returns nil for a request
// that may go on.
type gate func(*passage) *door.Refusal

// The gates of each kind of request, in their order. A request passes all of them, or is
// refused by the first one that does not let it pass. testdata/gates.txt has them in a table,
// and testdata/order.txt has the refusals that clients see.
var (
	routeGates = [...]gate{(*passage).caller, (*passage).opened, (*passage).trust, (*passage).reason, (*passage).share, (*passage).audited,
		(*passage).enter, (*passage).enterOwn, (*passage).size, (*passage).bytes}

	// The caller of a gRPC call was identified before, see interceptor.tap. Each message of
	// the client passes messageGates.
	callGates = [...]gate{(*passage).tapped, (*passage).opened, (*passage).reason, (*passage).trust,
		(*passage).share, (*passage).enter, (*passage).audited}
	// publicCallGates are those of public methods, if other methods need a caller.
	publicCallGates = [...]gate{(*passage).enter, (*passage).audited}
	messageGates    = [...]gate{(*passage).size, (*passage).bytes, (*passage).again}

	// Another node has authenticated the caller of a forwarded request, and counted it.
	forwardedRouteGates = [...]gate{(*passage).live, (*passage).opened, (*passage).counted, (*passage).enter, (*passage).enterOwn, (*passage).size, (*passage).bytes}
	forwardedCallGates  = [...]gate{(*passage).live, (*passage).opened, (*passage).counted, (*passage).size, (*passage).enter, (*passage).bytes}
)

// pass returns the refusal of the first of gates that does not let the request pass.
// [passage.leave] gives back what the gates took, in any case.
func (p *passage) pass(gates []gate) *door.Refusal {
	for _, g := range gates {
		if why := g(p); why != nil {
			return why
		}
	}
	return nil
}

// passage is a request on its way to its door, over HTTP or gRPC: what the gates look at,
// what they find out, and what they take.
type passage struct {
	*shared
	op    *operation  // nil before a route is found
	door  *servedDoor // nil: refusals have the server's own shape
	conn  *conn.Conn
	start time.Time
	stale uint64        // Options.StaleReads when the request came
	as    *forward.Head // of a forwarded request, otherwise nil

	header http.Header // of a call, only headerReason
	id     [1]string   // the value of X-Request-Id, in the form of a header; "" of a call
	remote string      // see from
	length int64       // of the body or message; negative if it is not known
	most   int64       // the bound of length
	free   int64       // the length up to which a body is not charged

	ctx      lazyDeadline  // the context of the handler, with the caller's key
	charge   conn.Charge   // of the body
	place    *conn.Limiter // the bound that the request counts in, or nil
	public   bool          // the place is that of a caller without a key, see conn.PublicPlaces
	own      bool          // the request has a place of ownRequests
	required bool          // requests need a caller
	messages int           // of the client of a call
}

// from returns the address of the client.
func (p *passage) from() string {
	if p.remote == "" {
		p.remote = remoteOf(p.ctx.Context)
	}
	return p.remote
}

// caller finds out who calls, by the Authorization header or the certificate of the client.
func (p *passage) caller() *door.Refusal {
	if !p.required || p.op.public || p.op.own {
		p.withoutCaller()
		return nil
	}
	return p.identify(p.header["Authorization"])
}

// identify finds out who calls, by the values of the Authorization header or the certificate of
// the client.
func (p *passage) identify(shown []string) *door.Refusal {
	key, reason := p.keys.identify(p.ctx.Context, shown, p.op.basic, p.conn)
	if why := p.lockout(shown, key); why != nil {
		return why
	}
	if reason != 0 {
		why := &door.Refusal{Reason: reason}
		if reason == door.BadCredentials {
			p.loginFailed(p.door.Name, p.keys.refusedBy(shown), p.from(), p.id[0], why.Error())
		}
		return why
	}
	if key.basic {
		p.conn.Shown.Store(key)
	}
	p.ctx.key, p.ctx.Context = key, door.WithCaller(p.ctx.Context, key.caller)
	return nil
}

// withoutCaller lets a request pass that needs no caller. Unless it is for a public operation,
// it ends as soon as requests need one.
func (p *passage) withoutCaller() {
	if !p.required && !p.op.own && (!p.op.public || p.op.streams) {
		p.ctx.key = p.keys.unkeyed()
	}
}

// lockout refuses a request with a user's password, right or wrong, if its address has sent too
// many wrong ones for this user. key is nil if the password is wrong. A user who was accepted
// last on the connection is not refused.
func (p *passage) lockout(shown []string, key *hashedKey) *door.Refusal {
	if !p.op.basic || len(shown) == 0 {
		return nil
	}
	user, _, basic := parseBasic(shown[0], len(shown[0]))
	if !basic || key != nil && p.conn.Shown.Load() == any(key) {
		return nil
	}
	refused, first := p.conn.All.Standings.Guess(p.conn.Address, user, key == nil)
	if !refused {
		return nil
	}
	if first {
		p.log.Warn("too many wrong passwords: an address may try this user's only now and then", "door", p.door.Name, "remote", p.from(), "user", user)
	}
	return &door.Refusal{Reason: door.TooMany, Bound: boundGuesses, Limit: conn.GuessesMax}
}

// tapped takes the key of the caller of a gRPC call from its context.
func (p *passage) tapped() *door.Refusal {
	if !p.required {
		p.withoutCaller()
		return nil
	}
	if p.ctx.key, _ = p.ctx.Context.Value(keyOfCall{}).(*hashedKey); p.ctx.key == nil {
		return &door.Refusal{Reason: door.BadCredentials}
	}
	return nil
}

// live checks that this node still accepts the key of a forwarded request, and notes who makes
// its writes.
func (p *passage) live() *door.Refusal {
	key := p.keys.live(p.ctx.Context, p.as)
	switch {
	case key != nil || p.op.public || p.op.own:
	case p.required:
		why := &door.Refusal{Reason: door.BadCredentials}
		p.loginFailed(p.door.Name, logins.Failure{Credential: logins.CredentialKey, Reason: logins.Refused}, p.as.Remote, p.as.ID, why.Error())
		return why
	default:
		key = p.keys.unkeyed()
	}
	j := &p.ctx.journal
	j.SetOrigin(p.as.Origin)
	j.Repeated = p.as.Repeated
	if p.ctx.key = key; key.known() {
		p.ctx.Context = door.WithCaller(p.ctx.Context, key.caller)
		j.Name = key.author
	}
	return nil
}

// opened checks that the key of the caller is for the door.
func (p *passage) opened() *door.Refusal {
	if !p.ctx.key.known() {
		return nil
	}
	return p.ctx.key.opens(p.ctx.Context, p.door.Name)
}

// trust makes the connection a trusted one, see [conn.Conn.Trust]. It refuses the request, and
// leaves the connection untrusted, if the key has ended since it was looked up: what made all
// connections untrusted may have come in between.
func (p *passage) trust() *door.Refusal {
	key := p.ctx.key
	if key == nil && (p.required || p.op.own) {
		return nil
	}
	if why := p.conn.Trust(); why != nil || key == nil || !key.ended() {
		return why
	}
	p.conn.All.Distrust(p.conn)
	return &door.Refusal{Reason: door.BadCredentials}
}

// reason sets the origin of the writes. It refuses several reasons, and one that no entry can
// have.
func (p *passage) reason() *door.Refusal {
	origin := storage.Origin{Caller: storage.CallerLocal}
	if p.ctx.key != nil {
		origin.Caller = p.ctx.key.author
	}
	if reasons := p.header[headerReason]; len(reasons) > 0 {
		origin.Reason = reasons[0]
		if len(reasons) > 1 || len(origin.Reason) > storage.ReasonBytesMax || origin.Invalid() != "" {
			return &door.Refusal{Reason: door.BadReason}
		}
	}
	p.ctx.journal.SetOrigin(origin)
	return nil
}

// share uses one request of the limits of the caller. A request of a door that authenticates its
// callers itself has none, but those of the stores that it uses.
func (p *passage) share() *door.Refusal {
	if !p.useLimits() {
		return nil
	}
	return p.take(p.ctx.limits.all, p.start)
}

// again uses one request of the limits of the caller for each further message of a client.
func (p *passage) again() *door.Refusal {
	l := &p.ctx.limits
	if p.messages++; p.messages == 1 || l.of == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.take(l.all, time.Now())
}

// counted makes the processor time of a forwarded request count, whose receiver has counted it
// as a request.
func (p *passage) counted() *door.Refusal {
	p.useLimits()
	return nil
}

// audited checks that there can be a record of a request that changes something.
func (p *passage) audited() *door.Refusal {
	if p.trail != nil && (p.op.changes() || p.op.login) && p.trail.Ready() != nil {
		return &door.Refusal{Reason: door.Unaudited}
	}
	return nil
}

// enter takes a place among the requests or streams in flight.
func (p *passage) enter() (why *door.Refusal) {
	if p.required && p.op.public {
		p.place, why = p.publicPlaces.Enter(p.conn, p.op.streams)
		p.public = why == nil
		return why
	}
	place := &p.requests
	if p.op.streams {
		place = &p.streams
	}
	if why = place.Acquire(); why == nil {
		p.place = place
	}
	return why
}

// enterOwn takes a place among the requests to doors that authenticate their callers.
func (p *passage) enterOwn() *door.Refusal {
	if !p.op.own {
		return nil
	}
	why := p.ownBodies.Acquire(&p.ownRequests, p.conn)
	p.own = why == nil
	return why
}

// size bounds the length of a body or message that is known.
func (p *passage) size() *door.Refusal {
	if p.length > p.most {
		return &door.Refusal{Reason: door.TooLarge, Bound: "BodyBytes", Limit: p.most}
	}
	return nil
}

// bytes charges a body or message whose length is known.
func (p *passage) bytes() *door.Refusal {
	if p.length > p.free {
		return p.charge.Add(p.length)
	}
	return nil
}

// leave gives back what the gates took.
func (p *passage) leave() {
	if p.own { // before the charge, whose end wakes those that wait
		p.ownRequests.Release()
		p.own = false
	}
	p.charge.Release()
	p.leavePlace()
	if p.public {
		p.conn.LeavePublic(p.op.streams)
		p.public = false
	}
}

// leavePlace gives the place to others.
func (p *passage) leavePlace() {
	if p.place != nil {
		p.place.Release()
		p.place = nil
	}
}

// keyOfCall is the context key of the *hashedKey that the tap has found.
type keyOfCall struct{}

// remoteOf returns the address of the caller of a gRPC method.
func remoteOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

// headerOfCall is the context key of the [http.Header] with what a call has as metadata for
// the reason of its writes, in place of a header.
type headerOfCall struct{}
