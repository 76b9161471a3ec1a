//go:build linux

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/workshop/history"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

const (
	// thingsMin are the documents and aliases that the clients of a store use at a time, so
	// that they meet; more clients use as many as they are. They take others after
	// thingsTime, so that what is not known about some of them does not stay.
	thingsMin  = 5
	thingsTime = 2 * time.Second
	// callTime is how long a client waits for an answer.
	callTime = 8 * time.Second
)

// target is a process of a node, to which clients send requests.
type target struct {
	processes []history.Process // the same process, for each store
	node      *Node
	web       *http.Transport
	client    *client.Client
}

// record is what the clients did and saw.
type record struct {
	time   atomic.Int64
	stores []*ledger

	mu     sync.Mutex
	wrong  []error
	errors map[string]int // answers without success, by their code
	keys   map[string]int // what was done with keys
}

// ledger is what the clients did and saw in one store. The mutex of the record guards calls
// and the token.
type ledger struct {
	number int
	id     string
	known  atomic.Uint64 // the newest revision that anybody has seen
	calls  []*history.Call
	// token is the newest token, and tokenAt its revision.
	token   string
	tokenAt storage.Revision
}

func (r *record) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Errorf(format, args...))
}

// known returns a revision of each store that is in the log.
func (r *record) known() []storage.Revision {
	all := make([]storage.Revision, len(r.stores))
	for i, l := range r.stores {
		all[i] = storage.Revision(l.known.Load())
	}
	return all
}

// saw notes that a revision of a store is in the log, with its token if that is known.
func (r *record) saw(l *ledger, at storage.Revision, token string) {
	for old := l.known.Load(); old < uint64(at) && !l.known.CompareAndSwap(old, uint64(at)); old = l.known.Load() {
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if token != "" && at > l.tokenAt {
		l.token, l.tokenAt = token, at
	}
}

// do makes a call and notes it. call sets what the answer has.
func (r *record) do(ctx context.Context, t *target, l *ledger, c history.Call, call func(ctx context.Context, c *history.Call) error) history.Outcome {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	c.Process = &t.processes[l.number]
	c.Began = r.time.Add(1)
	c.Err = call(ctx, &c)
	c.Ended = r.time.Add(1)
	var code string
	c.Outcome, code = outcomeOf(c.Err)
	r.mu.Lock()
	defer r.mu.Unlock()
	l.calls = append(l.calls, &c)
	if code != "" {
		r.errors[code]++
	}
	if c.Err != nil && isWrong(&c, code) {
		r.wrong = append(r.wrong, fmt.Errorf("node %d answered with an error that it must not have: %s, code %q", t.node.Number, &c, code))
	}
	return c.Outcome
}

// The codes of answers with an error, and of no answer.
const (
	codeNone = "none" // no answer
	codeDial = "dial" // no connection
)

// noEffect are the codes of requests that have no effect.
var noEffect = map[string]bool{codeDial: true, "no_holder": true, "no_lease": true, "shutting_down": true, "busy": true, "too_many": true, "loading": true}

// patiently makes a call of which nothing is judged and that may be made twice, and makes it again
// while it fails as during a fault: on a busy machine a node that is ready has no lease, or no
// holder, now and then.
func patiently(call func() error) error {
	for end := time.Now().Add(startTime); ; time.Sleep(20 * time.Millisecond) {
		err := call()
		if _, code := outcomeOf(err); !isFaults(code) || time.Now().After(end) {
			return err
		}
	}
}

// outcomeOf returns the outcome of a call and the code of its error.
func outcomeOf(err error) (o history.Outcome, code string) {
	if err == nil {
		return history.Made, ""
	}
	if answer, ok := errors.AsType[*client.Error](err); ok {
		code = answer.Code
		if answer.Kind != nil {
			if o = history.OutcomeOf(answer.Kind); o != history.Failed {
				return o, code
			}
		}
	} else if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		code = codeDial
	} else {
		code = codeNone
	}
	if noEffect[code] {
		return history.Failed, code
	}
	return history.Open, code
}

// isWrong reports whether an error is one that no fault excuses.
func isWrong(c *history.Call, code string) bool {
	switch code {
	case "future":
		return c.Kind != history.Least // a node that is cut off does not get what the token needs
	case "no_store":
		return c.Kind == history.Release
	}
	return !isFaults(code) && c.Outcome != history.Refused
}

// isFaults reports whether faults excuse the code of an error of any call.
func isFaults(code string) bool {
	switch code {
	case codeNone, "uncertain", "timed_out", "closed", "canceled":
		return true // closed, canceled: a node that stops does not wait for a slow log
	}
	return noEffect[code]
}

// player is a client that makes one call after the other.
type player struct {
	play   *play
	random *rand.Rand
	stores []owned // that it has created
	home   *machine
	// writes is that it reads nothing.
	writes bool
}

// owned is a store of a client.
type owned struct {
	id    string
	alias int
}

// run makes calls until ctx ends. A player with a home uses that node, others use all.
func (p *player) run(ctx context.Context) {
	for ctx.Err() == nil {
		m := p.home
		if m == nil {
			m = p.play.machines[p.random.IntN(len(p.play.machines))]
		}
		if t := m.target.Load(); t != nil {
			p.call(context.WithoutCancel(ctx), t)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(p.random.Int64N(int64(2*p.play.options.Think) + 1))):
		}
	}
}

// thing returns the number of a document or of an alias.
func (p *player) thing() int {
	return int(time.Since(p.play.began)/thingsTime)*p.play.things + p.random.IntN(p.play.things)
}

// call makes a random call.
func (p *player) call(ctx context.Context, t *target) {
	l := p.play.record.stores[p.random.IntN(len(p.play.record.stores))]
	n := p.random.IntN(100)
	if p.writes {
		switch {
		case n < 78:
			p.write(ctx, t, l, history.Call{})
		case n < 97:
			p.write(ctx, t, l, history.Call{Needs: true, Need: p.thing(), NeedThere: p.random.IntN(2) == 0})
		case n < 99 && p.play.fleet.options.Key != "":
			p.secret(ctx, t)
		default:
			p.catalog(ctx, t)
		}
		return
	}
	switch {
	case n < 30:
		p.write(ctx, t, l, history.Call{})
	case n < 36:
		p.write(ctx, t, l, history.Call{Needs: true, Need: p.thing(), NeedThere: p.random.IntN(2) == 0})
	case n < 46:
		p.read(ctx, t, l, history.Full)
	case n < 60:
		p.read(ctx, t, l, history.Least)
	case n < 94:
		p.read(ctx, t, l, history.Newest)
	case n < 96:
		p.read(ctx, t, l, history.Local)
	default:
		p.catalog(ctx, t)
	}
}

// reasonKey is the key of the reason of a write in a context.
type reasonKey struct{}

// transport sends a key, unless it is "", and the reasons of writes.
type transport struct {
	http.RoundTripper
	key string
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	if t.key != "" {
		q.Header.Set("Authorization", "Bearer "+t.key)
	}
	if why, ok := q.Context().Value(reasonKey{}).(string); ok {
		q.Header.Set("Ostiary-Reason", why)
	}
	return t.RoundTripper.RoundTrip(q)
}

// precondition is one of a write, as the API has it.
type precondition struct {
	Filter client.Filter `json:"filter"`
	Absent bool          `json:"absent,omitempty"`
}

// A write of a client that only writes is large once in largeOf times: it adds largeTuples more
// tuples, with ids of largeBytes, so that segments differ in size. Once in leavesOf times the
// client leaves before the answer, after 1 ms to 1 s.
const (
	largeOf, largeTuples, largeBytes = 256, 400, 100
	leavesOf                         = 16
)

// write adds or removes the tuple of a document.
func (p *player) write(ctx context.Context, t *target, l *ledger, made history.Call) {
	made.Thing = p.thing()
	made.Mark = fmt.Sprintf("w%d", p.play.marks.Add(1))
	var request struct {
		client.Write
		Preconditions []precondition `json:"preconditions,omitempty"`
	}
	tuples := client.TuplesOf(history.DocumentTuple(made.Thing))
	if made.Kind = history.Kind(p.random.IntN(2)); made.Kind == history.Add {
		request.Add = tuples
	} else {
		request.Remove = tuples
	}
	if made.Needs {
		f := client.Filter{ObjectType: "doc", ObjectID: fmt.Sprint(made.Need), Relation: "viewer", SubjectID: history.DocumentTuple(made.Need).Subject.ID}
		request.Preconditions = []precondition{{f, !made.NeedThere}}
	}
	if p.writes && p.random.IntN(largeOf) == 0 {
		more := history.DocumentTuple(made.Thing)
		for i := range largeTuples {
			more.Subject.ID = fmt.Sprintf("%0*d", largeBytes, i) + made.Mark
			request.Add = append(request.Add, client.TuplesOf(more)...)
		}
	}
	if p.writes && p.random.IntN(leavesOf) == 0 {
		var leave context.CancelFunc
		ctx, leave = context.WithTimeout(ctx, time.Millisecond<<p.random.IntN(10))
		defer leave()
	}
	r := &p.play.record
	r.do(context.WithValue(ctx, reasonKey{}, made.Mark), t, l, made, func(ctx context.Context, c *history.Call) error {
		var written client.Written
		err := ask(ctx, t.client.Store(l.id), "/write", request, &written)
		if err == nil {
			c.Revision = storage.Revision(written.Revision)
			r.saw(l, c.Revision, written.Token)
		}
		return err
	})
}

// ask sends a request that the client has no method for.
func ask(ctx context.Context, s *client.Store, path string, in, out any) error {
	text, err := s.Ask(ctx, path, in)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// read asks for the tuple of a document.
func (p *player) read(ctx context.Context, t *target, l *ledger, k history.Kind) {
	r := &p.play.record
	made := history.Call{Kind: k, Thing: p.thing()}
	q := map[string]any{}
	switch k {
	case history.Full:
		q["at"] = map[string]bool{"fully_consistent": true}
	case history.Local:
		q["at"] = map[string]bool{"minimize_latency": true}
	case history.Least:
		r.mu.Lock()
		token, at := l.token, l.tokenAt
		r.mu.Unlock()
		q["at"], made.After = map[string]string{"at_least": token}, at
	}
	r.do(ctx, t, l, made, func(ctx context.Context, c *history.Call) error {
		var d client.Decision
		tuple := history.DocumentTuple(c.Thing)
		q["object"], q["relation"], q["subject"] = tuple.Object.String(), tuple.Relation, tuple.Subject.String()
		err := ask(ctx, t.client.Store(l.id), "/check", q, &d)
		if err == nil {
			c.Revision, c.There = storage.Revision(d.Revision), d.Allowed
			r.saw(l, c.Revision, "")
		}
		return err
	})
}

// aliasDoor is the door of the aliases of stores.
const aliasDoor = "authzen"

// catalog creates a store with an alias, or deletes one. The first store has its calls.
func (p *player) catalog(ctx context.Context, t *target) {
	r := &p.play.record
	l := r.stores[0]
	if n := len(p.stores); n > 0 && p.random.IntN(2) == 0 {
		last := p.stores[n-1]
		p.stores = p.stores[:n-1]
		r.do(ctx, t, l, history.Call{Kind: history.Release, Thing: last.alias}, func(ctx context.Context, _ *history.Call) error {
			return t.client.Store(last.id).Delete(ctx)
		})
		return
	}
	alias := p.thing()
	r.do(ctx, t, l, history.Call{Kind: history.Claim, Thing: alias}, func(ctx context.Context, _ *history.Call) error {
		s, err := t.client.CreateStore(ctx, client.NewStore{Name: "play", Aliases: map[string]string{aliasDoor: fmt.Sprintf("alias%d", alias)}})
		if err == nil {
			p.stores = append(p.stores, owned{s.ID, alias})
		}
		return err
	})
}

// prepare creates a store that the clients use, with its schema.
func (r *record) prepare(ctx context.Context, c *client.Client, l *ledger) error {
	err := patiently(func() error {
		s, err := c.CreateStore(ctx, client.NewStore{Name: "play"})
		l.id = s.ID
		return err
	})
	if err != nil {
		return err
	}
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	s := c.Store(l.id)
	err = patiently(func() error {
		_, err := s.WriteSchema(ctx, client.NewSchema{Model: &model})
		return err
	})
	if err != nil {
		return err
	}
	return patiently(func() error {
		written, err := s.Write(ctx, client.Write{Add: client.TuplesOf(history.DocumentTuple(-1))})
		r.saw(l, storage.Revision(written.Revision), written.Token)
		return err
	})
}

// entries returns the log of the store, as a node has it.
func entries(ctx context.Context, s *client.Store) (all []storage.Entry, err error) {
	for after, more := "", true; more; {
		page, err := s.Changes(ctx, client.Changes{After: after, Limit: changesMax})
		if err != nil {
			return nil, err
		}
		for i := range page.Entries {
			e, err := entryOf(&page.Entries[i])
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		after, more = page.Next, page.More
	}
	return all, nil
}

const changesMax = 1000

// entryOf translates an entry, without what [history.Past] does not use.
func entryOf(in *client.Entry) (e storage.Entry, err error) {
	e.Revision = storage.Revision(in.Revision)
	e.Origin.Reason = in.Reason
	for _, c := range in.Changes {
		kind := map[string]storage.ChangeKind{"add": storage.TupleAdd, "remove": storage.TupleRemove}[c.Op]
		if c.Tuple == nil || kind == 0 {
			continue
		}
		var t rel.Tuple
		if t, err = c.Tuple.Tuple(); err != nil {
			return e, err
		}
		e.Changes = append(e.Changes, storage.Change{Kind: kind, Tuple: t})
	}
	return e, err
}
