package conn

import "github.com/ostiary/ostiary/door"

const (
	// publicDivisor: RequestsMax and StreamsMax divided by it bound the requests and
	// streams of callers without a key, if keys are set.
	publicDivisor = 10
	// publicPerConnection and watchesPerConnection bound them on each connection.
	publicPerConnection  = 16
	watchesPerConnection = 1
	// PublicMessageMax bounds the gRPC messages of callers without a key, in bytes.
	PublicMessageMax = 16 << 10
)

// PublicPlaces are the places of requests without a key on a server with keys. Callers
// without a key can take no others.
type PublicPlaces struct{ Requests, Streams Limiter }

// NewPublicPlaces returns a tenth of so many places.
func NewPublicPlaces(requests, streams int64) PublicPlaces {
	return PublicPlaces{Requests: Limiter{Name: "PublicRequestsMax", Max: max(requests/publicDivisor, 1)},
		Streams: Limiter{Name: "PublicStreamsMax", Max: max(streams/publicDivisor, 1)}}
}

// Enter takes a place for a request on c, and returns its limiter. If all places are taken, it closes an untrusted connection that
// has one, and takes the place that becomes free; until then the bound is exceeded. The
// caller releases the place, and then calls leavePublic.
func (p *PublicPlaces) Enter(c *Conn, stream bool) (*Limiter, *door.Refusal) {
	limit := &p.Requests
	if stream {
		limit = &p.Streams
		if c.watches.Add(1) > watchesPerConnection {
			c.watches.Add(-1)
			return nil, &door.Refusal{Reason: door.TooMany, Bound: "PublicStreamsPerConnection", Limit: watchesPerConnection}
		}
	}
	var why *door.Refusal
	if c.public.Add(1) > publicPerConnection {
		why = &door.Refusal{Reason: door.TooMany, Bound: "PublicCallsPerConnection", Limit: publicPerConnection}
	} else if why = limit.Acquire(); why != nil && c.All.evictPublic(c, stream) {
		limit.InFlight.Add(1)
		why = nil
	}
	if why != nil {
		c.crowded.Add(1)
		c.LeavePublic(stream)
		return nil, why
	}
	return limit, nil
}

// LeavePublic ends what [PublicPlaces.Enter] counted on the connection.
func (c *Conn) LeavePublic(stream bool) {
	c.public.Add(-1)
	if stream {
		c.watches.Add(-1)
	}
}
