// Package decisions keeps the decision log: each check that the server answers, as a line
// of JSON in the shape that users of Open Policy Agent know. Its main type is [Log]. It
// makes no decision, and its lines are neither signed nor a chain, unlike those of package
// audit, which writes them.
package decisions

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/rel"
)

// contextMax bounds the context and the contextual data of a line, in bytes. A line with
// more has neither, and has a mark for that.
const contextMax = 64 << 10

// Options are the settings of a [Log].
type Options struct {
	// Sample is the part of the decisions that is kept, from 0 to 1.
	Sample float64
	// Masks are the parameters of conditions and the attributes whose values are left out;
	// "*" is all of them.
	Masks []string
	// Block makes a decision wait for room in the buffer, until the deadline of its
	// request. Otherwise a decision that finds no room is lost and counted.
	Block bool
	// BufferBytes bounds the lines that wait for the disk; 0 is 16 MiB.
	BufferBytes int
	// Node and Version are labels of each line.
	Node, Version string
	// Failed is called when the log cannot be written, and with nil when it can again.
	Failed func(error)
}

// Log is a decision log. Its methods may be called concurrently.
type Log struct {
	options  Options
	out      *audit.Log
	labels   []byte
	sampled  uint64 // a random number below it is kept
	buffers  sync.Pool
	unmasked bool
	recorded atomic.Uint64
}

// Open opens a log. open opens its output, for example with [audit.OpenFolder].
func Open(open func(audit.Options) (*audit.Log, error), o Options) (*Log, error) {
	out, err := open(audit.Options{Plain: true, Name: audit.DecisionsName, Block: o.Block, QueueBytes: o.BufferBytes, Failed: o.Failed})
	if err != nil {
		return nil, err
	}
	l := &Log{options: o, out: out, unmasked: len(o.Masks) == 0}
	l.labels = append(jsonread.AppendString([]byte(`,"labels":{"app":"ostiary","id":`), o.Node), `,"version":`...)
	l.labels = append(jsonread.AppendString(l.labels, o.Version), '}')
	const all = 1 << 53
	l.sampled = uint64(min(max(o.Sample, 0), 1) * all)
	l.buffers.New = func() any { return new([]byte) }
	return l, nil
}

// Lost returns how many decisions were lost.
func (l *Log) Lost() uint64 { return l.out.Lost() }

// Recorded returns how many decisions were recorded.
func (l *Log) Recorded() uint64 { return l.recorded.Load() }

// Failing reports whether the log cannot be written now.
func (l *Log) Failing() bool { return l.out.Failure() != nil }

// Close writes what waits, and closes the log.
func (l *Log) Close() error { return l.out.Close() }

// Decided records a decision, unless the sample leaves it out. It is for
// authz.RecordingOptions.
func (l *Log) Decided(ctx context.Context, d *authz.Decided) {
	first := rand.Uint64()
	if first>>11 >= l.sampled {
		return
	}
	buffer := l.buffers.Get().(*[]byte)
	b := l.append(ctx, (*buffer)[:0], d, first)
	if l.out.Add(ctx, b) == nil { // otherwise it is counted as lost
		l.recorded.Add(1)
	}
	if cap(b) <= 4<<10 {
		*buffer = b
		l.buffers.Put(buffer)
	}
}

// append appends the members of a decision, each after a comma.
func (l *Log) append(ctx context.Context, b []byte, d *authz.Decided, first uint64) []byte {
	b = append(b, l.labels...)
	b = appendID(append(b, `,"decision_id":"`...), first, rand.Uint64())
	b = time.Now().UTC().AppendFormat(append(b, `","timestamp":"`...), "2006-01-02T15:04:05.000000000Z")
	b = append(b, `","path":`...)
	request := door.RequestOf(ctx)
	if name := door.NameOf(ctx); request == nil {
		b = jsonread.AppendString(b, name)
	} else {
		b = append(append(b, '"'), name...)
		b = append(append(append(b, '/'), request.Operation()...), '"')
	}
	store := d.Store.String()
	b = append(append(append(b, `,"store":"`...), store...), '"')
	b = strconv.AppendUint(append(b, `,"revision":"`...), uint64(d.Revision), 10)
	b = append(b, `","input":`...)
	var erased []string
	b, erased = l.input(b, d.Question)
	switch d.Answer.Decision {
	case expr.True:
		b = append(b, `,"result":true`...)
	case expr.False:
		b = append(b, `,"result":false`...)
	default:
		b = jsonread.AppendString(append(b, `,"result":null,"reason":`...), quote.Of(d.Answer.Reasons.String(), audit.TextMax))
	}
	if request != nil {
		b = jsonread.AppendString(append(b, `,"requested_by":`...), request.Remote())
		b = jsonread.AppendString(append(b, `,"caller":`...), request.Author())
		if id := request.ID(); id != "" {
			b = jsonread.AppendString(append(b, `,"request_id":`...), id)
		}
	}
	if len(erased) > 0 {
		text, _ := json.Marshal(erased) // strings always marshal
		b = append(append(b, `,"erased":`...), text...)
	}
	b = strconv.AppendInt(append(b, `,"metrics":{"timer_check_ns":`...), d.Took.Nanoseconds(), 10)
	b = strconv.AppendInt(append(b, `,"counter_nodes":`...), int64(d.Answer.Stats.Nodes), 10)
	b = strconv.AppendInt(append(b, `,"counter_conditions":`...), int64(d.Answer.Stats.Conditions), 10)
	return append(b, '}')
}

// appendID appends a random UUID (version 4).
func appendID(b []byte, first, second uint64) []byte {
	var raw [16]byte
	for i := range 8 {
		raw[i], raw[i+8] = byte(first>>(8*i)), byte(second>>(8*i))
	}
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	b = hex.AppendEncode(b, raw[:4])
	for _, part := range [...][]byte{raw[4:6], raw[6:8], raw[8:10], raw[10:]} {
		b = hex.AppendEncode(append(b, '-'), part)
	}
	return b
}

// input appends a question in the form of the native API, so that it can be asked again.
// erased are the members whose values are masked.
func (l *Log) input(b []byte, q *authz.CheckRequest) (_ []byte, erased []string) {
	b = append(b, `{"subject":`...)
	b = appendName(b, q.Subject.Type, q.Subject.ID, q.Subject.Relation)
	b = jsonread.AppendString(append(b, `,"relation":`...), q.Relation)
	b = appendName(append(b, `,"object":`...), q.Object.Type, q.Object.ID, "")
	if q.SchemaID != "" && !q.SchemaImplied {
		b = jsonread.AppendString(append(b, `,"schema":`...), q.SchemaID)
	}
	if q.Context == nil && len(q.Tuples)|len(q.Attributes) == 0 {
		return append(b, '}'), nil
	}
	plain := len(b)
	b, erased = l.context(b, q.Context)
	b, erased = l.tuples(b, erased, q.Tuples)
	b, erased = l.attributes(b, erased, q.Attributes)
	if len(b)-plain > contextMax {
		return append(b[:plain], '}'), []string{"/input/context", "/input/tuples", "/input/attributes"}
	}
	return append(b, '}'), erased
}

// appendName appends the text of an object or a subject.
func appendName(b []byte, kind, id, relation string) []byte {
	b = append(jsonread.AppendText(append(b, '"'), kind), ':')
	b = jsonread.AppendText(b, id)
	if relation != "" {
		b = jsonread.AppendText(append(b, '#'), relation)
	}
	return append(b, '"')
}

// masked reports whether the value of a parameter or an attribute is left out.
func (l *Log) masked(name string) bool {
	return !l.unmasked && (slices.Contains(l.options.Masks, name) || slices.Contains(l.options.Masks, "*"))
}

// context appends the parameters of conditions.
func (l *Log) context(b []byte, values expr.Values) (_ []byte, erased []string) {
	if values == nil {
		return b, nil
	}
	kept := values
	for name := range values {
		if l.masked(name) {
			erased = append(erased, "/input/context/"+name)
		}
	}
	if len(erased) > 0 {
		kept = expr.Values{}
		for name, value := range values {
			if !l.masked(name) {
				kept[name] = value
			}
		}
		slices.Sort(erased)
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return b, append(erased, "/input/context")
	}
	return append(append(b, `,"context":`...), text...), erased
}

// tuples appends contextual tuples.
func (l *Log) tuples(b []byte, erased []string, tuples []rel.Tuple) ([]byte, []string) {
	for i := range tuples {
		t := &tuples[i]
		if i == 0 {
			b = append(b, `,"tuples":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendName(append(b, `{"subject":`...), t.Subject.Type, t.Subject.ID, t.Subject.Relation)
		b = jsonread.AppendString(append(b, `,"relation":`...), t.Relation)
		b = appendName(append(b, `,"object":`...), t.Object.Type, t.Object.ID, "")
		if t.Condition != "" {
			b = jsonread.AppendString(append(b, `,"condition":`...), t.Condition)
		}
		switch {
		case t.Context == "":
		case l.unmasked:
			b = append(append(b, `,"context":`...), t.Context...)
		default:
			var values expr.Values
			if json.Unmarshal([]byte(t.Context), &values) == nil {
				var more []string
				b, more = l.context(b, values)
				for _, name := range more {
					erased = append(erased, "/input/tuples/"+strconv.Itoa(i)+name[len("/input"):])
				}
			}
		}
		if t.Expires != 0 {
			b = append(t.Expires.Time().UTC().AppendFormat(append(b, `,"expires":"`...), time.RFC3339Nano), '"')
		}
		b = append(b, '}')
	}
	if len(tuples) > 0 {
		b = append(b, ']')
	}
	return b, erased
}

// attributes appends contextual attributes.
func (l *Log) attributes(b []byte, erased []string, attributes []rel.Attribute) ([]byte, []string) {
	first := true
	for i := range attributes {
		x := &attributes[i]
		if l.masked(x.Name) {
			erased = append(erased, "/input/attributes/"+x.Name)
			continue
		}
		if first {
			b = append(b, `,"attributes":[`...)
		} else {
			b = append(b, ',')
		}
		first = false
		b = appendName(append(b, `{"object":`...), x.Object.Type, x.Object.ID, "")
		b = jsonread.AppendString(append(b, `,"name":`...), x.Name)
		b = append(append(append(b, `,"value":`...), x.Value...), '}')
	}
	if !first {
		b = append(b, ']')
	}
	return b, erased
}
