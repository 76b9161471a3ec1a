package native

import (
	"github.com/ostiary/ostiary/storage"
)

// OriginJSON is who made a write, and why, as the API and the command line print it. A
// field that is not known is missing.
type OriginJSON struct {
	Caller  string       `json:"caller,omitempty"`  // the id of the caller
	Reason  string       `json:"reason,omitempty"`  // what the caller gave as the reason
	Request *RequestJSON `json:"request,omitempty"` // the forwarded request that the write answers
}

// RequestJSON is the forwarded request that a write answers.
type RequestJSON struct {
	Node   string `json:"node"`   // the id of the node
	Number uint64 `json:"number"` // the number of the request at that node
}

// originOf translates an origin.
func originOf(o *storage.Origin) OriginJSON {
	out := OriginJSON{Caller: o.Caller, Reason: o.Reason}
	if o.Request != (storage.RequestID{}) {
		out.Request = &RequestJSON{o.Request.Node.String(), o.Request.Number}
	}
	return out
}

// Origin returns the origin in the engine's form. It fails if the id of the node is
// malformed.
func (o *OriginJSON) Origin() (out storage.Origin, err error) {
	out.Caller, out.Reason = o.Caller, o.Reason
	if o.Request != nil {
		out.Request.Number = o.Request.Number
		out.Request.Node, err = storage.ParseNodeID(o.Request.Node)
	}
	return out, err
}
