// Package server puts doors on the network. Its main types are [Server], made
// by [New] from [Options], [Keys] and [Certificate]. It never decides an
// authorization question: a door translates the request and the engine decides.
//
// An HTTP request passes these steps in this order:
//
//   - listener.go: one address, its listener and the server that serves it
//   - internal/conn: the connection is counted
//   - tls.go: TLS, on all ports but metrics, and clientca.go: client certificates
//   - net/http reads the request, within the times and sizes of [Options]
//   - handler.go: paths with more than one reading are refused; health and CORS
//     are answered (health.go, cors.go)
//   - host.go: without keys, only pages and host names of this machine pass
//   - router.go: the door with the longest matching prefix, and its route; front.go is the
//     page at /
//   - gates.go: the caller, the places and the bounds, in a list for each kind of
//     request (keys.go: the key in the Authorization header, or else the client
//     certificate; conn.Limiter: a place among the requests or streams in flight)
//   - request.go: the deadline, and then the handler of the door's route; afterwards
//     metrics, the access log, and the end of the trace (traced.go)
//   - stream.go: deadlines of routes whose response may last
//
// The gates of gRPC calls are called in grpc.go and call.go; codec.go encodes messages.
// forward.go passes a request on to another node, and forwardserve.go serves one. build.go makes the ports, stop.go drains and stops them, and
// exposition.go shows what metrics.go has counted. starting.go answers probes while there is no server yet.
package server
