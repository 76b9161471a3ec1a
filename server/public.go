package server

import "github.com/ostiary/ostiary/door"

const (
	// publicDivisor: RequestsMax and StreamsMax divided by it bound the requests and
	// streams of callers without a key, if keys are set.
	publicDivisor = 10
	// publicPerConnection and watchesPerConnection bound them on each connection.
	publicPerConnection  = 16
	watchesPerConnection = 1
	// publicMessageMax bounds the gRPC messages of callers without a key, in bytes.
	publicMessageMax = 16 << 10
)

// publicPlaces are the places of requests without a key on a server with keys. Callers
// without a key can take no others.
type publicPlaces struct{ requests, streams limiter }

// newPublicPlaces returns a tenth of so many places.
func newPublicPlaces(requests, streams int64) publicPlaces {
	return publicPlaces{requests: limiter{name: "PublicRequestsMax", max: max(requests/publicDivisor, 1)},
		streams: limiter{name: "PublicStreamsMax", max: max(streams/publicDivisor, 1)}}
}

// enter takes a place for a request on c, and returns its limiter. If all places are taken, it closes an untrusted connection that
// has one, and takes the place that becomes free; until then the bound is exceeded. The
// caller releases the place, and then calls leavePublic.
func (p *publicPlaces) enter(c *conn, stream bool) (*limiter, *door.Refusal) {
	limit := &p.requests
	if stream {
		limit = &p.streams
		if c.watches.Add(1) > watchesPerConnection {
			c.watches.Add(-1)
			return nil, &door.Refusal{Reason: door.TooMany, Bound: "PublicStreamsPerConnection", Limit: watchesPerConnection}
		}
	}
	var why *door.Refusal
	if c.public.Add(1) > publicPerConnection {
		why = &door.Refusal{Reason: door.TooMany, Bound: "PublicCallsPerConnection", Limit: publicPerConnection}
	} else if why = limit.acquire(); why != nil && c.all.evictPublic(c, stream) {
		limit.inFlight.Add(1)
		why = nil
	}
	if why != nil {
		c.leavePublic(stream)
		return nil, why
	}
	return limit, nil
}

// leavePublic ends what [publicPlaces.enter] counted on the connection.
func (c *conn) leavePublic(stream bool) {
	c.public.Add(-1)
	if stream {
		c.watches.Add(-1)
	}
}
