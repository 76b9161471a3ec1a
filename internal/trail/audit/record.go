package audit

import (
	"cmp"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/tool/quote"
)

// Kind is what a line of the log is about.
type Kind string

const (
	// KindWrite: a request that writes, made or not.
	KindWrite Kind = "write"
	// KindLogin: a request that exchanges a secret for a token.
	KindLogin Kind = "login"
	// KindRefusal: a request that the server refused before it had an effect.
	KindRefusal Kind = "refusal"
	// KindKeys: the keys of the server were replaced.
	KindKeys Kind = "keys"
	// KindNode: the role of the node among several has changed.
	KindNode Kind = "node"
	// KindCommand: a command on the machine of the node, which is no request of a client.
	KindCommand Kind = "command"

	// The other kinds are about the log itself. Lines of the first three are signed.

	// KindBegin is the first line of a file.
	KindBegin Kind = "begin"
	// KindHead is a signed line between others.
	KindHead Kind = "head"
	// KindEnd is the last line of a file that was closed.
	KindEnd Kind = "end"
	// KindLost counts records that were lost before it.
	KindLost Kind = "lost"
)

// Outcome is what became of a request.
type Outcome string

const (
	// Made: the request was carried out.
	Made Outcome = "made"
	// Refused: the caller may not do it, or the server took no request.
	Refused Outcome = "refused"
	// Rejected: the request was not valid, or not possible in this state.
	Rejected Outcome = "rejected"
	// Failed: the server failed, or the client left.
	Failed Outcome = "failed"
	// Uncertain: it is not known whether the request had an effect.
	Uncertain Outcome = "uncertain"
)

// Caller is who sent a request.
type Caller struct {
	// Method is how the caller was authenticated: "preshared", "basic", "oidc", "mtls",
	// "identity" for a user of the Identity API, or "" if it was not.
	Method string
	// ID is the caller as the log of a store has it: a name or a fingerprint of a key, or
	// the id of a user; "" for an anonymous caller.
	ID string
	// Owner is who answers for the key, if that is known.
	Owner string
	// Certificate is the fingerprint of the caller's certificate, and Keys are the keys that
	// match it, or the caller's token.
	Certificate string
	Keys        []string
}

// Change is the newest revision of a store that a request has made.
type Change struct {
	Store    string
	Revision uint64 // 0 for a store that was created, changed or deleted itself
}

// Record is one event. Texts that are too long are cut, see [TextMax].
type Record struct {
	Time      time.Time
	Kind      Kind
	Door      string // the protocol; "" for events that are no request
	Operation string // the name of the operation in its protocol
	Method    string // the HTTP method, or "GRPC"
	Caller    Caller
	From      string // the address of the client, with its port
	Request   string // the id of the request, which the response has
	Store     string // as the request names it
	Changes   []Change
	Outcome   Outcome
	Status    string // the HTTP status, or the gRPC code
	Why       string // of a refusal, or what has changed
	Reason    string // the text of the caller, see storage.Origin
	Content   string // of the request, if it is asked for
	// Count and Until are set if the record counts several events, from Time to Until.
	Count int
	Until time.Time
}

const (
	// TextMax is how many bytes of a text a line has. Longer ones are cut.
	TextMax = 512
	// ContentMax is how many bytes of the content of a request a line has.
	ContentMax = 64 << 10
	// changesMax is how many changes a line has.
	changesMax = 16
	// keysMax is how many names of keys a line has.
	keysMax = 16
)

// timeForm is the form of times: RFC 3339 in UTC with microseconds.
const timeForm = "2006-01-02T15:04:05.000000Z"

// append appends the members of the record, each after a comma.
func (r *Record) append(b []byte) []byte {
	b = r.Time.UTC().AppendFormat(append(b, `,"time":"`...), timeForm)
	b = append(b, '"')
	b = text(b, "kind", string(r.Kind))
	b = text(b, "door", r.Door)
	b = text(b, "operation", r.Operation)
	b = text(b, "method", r.Method)
	if r.Door != "" || r.Caller.ID != "" {
		b = jsonread.AppendString(append(b, `,"caller":{"id":`...), quote.Of(cmp.Or(r.Caller.ID, anonymous), TextMax))
		b = text(b, "method", r.Caller.Method)
		b = text(b, "owner", r.Caller.Owner)
		b = text(b, "certificate", r.Caller.Certificate)
		b = append(texts(b, "keys", r.Caller.Keys), '}')
	}
	b = text(b, "from", r.From)
	b = text(b, "request", r.Request)
	b = text(b, "store", r.Store)
	if len(r.Changes) > 0 {
		b = append(b, `,"changes":[`...)
		for i, c := range r.Changes {
			if i == changesMax {
				break
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = jsonread.AppendString(append(b, `{"store":`...), c.Store)
			if c.Revision > 0 {
				b = strconv.AppendUint(append(b, `,"revision":`...), c.Revision, 10)
			}
			b = append(b, '}')
		}
		b = append(b, ']')
		if more := len(r.Changes) - changesMax; more > 0 {
			b = strconv.AppendInt(append(b, `,"more_changes":`...), int64(more), 10)
		}
	}
	b = text(b, "outcome", string(r.Outcome))
	b = text(b, "status", r.Status)
	b = text(b, "why", r.Why)
	b = text(b, "reason", r.Reason)
	if r.Content != "" {
		b = jsonread.AppendString(append(b, `,"content":`...), quote.Of(r.Content, ContentMax))
	}
	if r.Count > 0 {
		b = strconv.AppendInt(append(b, `,"count":`...), int64(r.Count), 10)
		b = append(r.Until.UTC().AppendFormat(append(b, `,"until":"`...), timeForm), '"')
	}
	return b
}

// anonymous is the id of a caller that was not authenticated.
const anonymous = "anonymous"

// text appends a member, unless it is empty.
func text(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return jsonread.AppendString(b, quote.Of(value, TextMax))
}

// texts appends a member that is a list, unless it is empty.
func texts(b []byte, name string, values []string) []byte {
	if len(values) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":[`...)
	for i, value := range values {
		if i == keysMax {
			break
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonread.AppendString(b, quote.Of(value, TextMax))
	}
	return append(b, ']')
}
