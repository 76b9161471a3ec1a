//go:build linux

package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/workshop/history"
	"github.com/ostiary/ostiary/storage"
)

// PlayOptions are the settings of [Play]. For and Clients are required.
type PlayOptions struct {
	// For is how long clients and faults play.
	For time.Duration
	// Seed is that of the choices of clients and faults. The order of what happens is not
	// part of it.
	Seed uint64
	// Clients is the number of clients that read and write.
	Clients int
	// Writers is the number of clients that only write, and now and then leave. On a fleet with
	// a key they make keys, too, and revoke them.
	Writers int
	// Stores is the number of stores that the clients use. The default is 1.
	Stores int
	// Think is the mean time between two calls of a client.
	Think time.Duration
	// Faults names the faults that are played, see [FaultNames]; nil is all of them.
	Faults []string
	// CrashDatabase kills the database and starts it again; nil never does.
	CrashDatabase func()
}

// Result is what came of a play.
type Result struct {
	Calls    int            // of all clients
	Made     map[string]int // calls that were answered without an error, by kind
	Errors   map[string]int // answers without success, by their code
	Open     int            // writes whose outcome the client does not know
	Faults   map[string]int // by name
	Entries  int            // in the logs of the stores
	Violated []error        // the broken promises
	Elapsed  time.Duration
}

// String returns the numbers on one line.
func (r *Result) String() string {
	return fmt.Sprintf("%d calls in %s (made: %s; errors: %s; %d writes with an open outcome), faults: %s, %d entries, %d violations",
		r.Calls, r.Elapsed.Round(time.Second), counts(r.Made), counts(r.Errors), r.Open, counts(r.Faults), r.Entries, len(r.Violated))
}

func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, ", ")
}

// play is one run of clients and faults on a fleet.
type play struct {
	fleet    *Fleet
	options  PlayOptions
	began    time.Time
	machines []*machine
	record   record
	things   int // that the clients of a store use at a time
	marks    atomic.Int64
	starts   atomic.Int64 // of processes

	mu     sync.Mutex
	faults map[string]int
}

// machine is a node with the process to which clients send requests.
type machine struct {
	play   *play
	node   *Node
	random *rand.Rand
	target atomic.Pointer[target] // nil while the process does not run
}

// enter makes the newest process of the node one that the clients use. known has a revision of
// each store that was in the log when it was started.
func (m *machine) enter(known []storage.Revision) {
	web := &http.Transport{MaxIdleConnsPerHost: m.play.options.Clients + m.play.options.Writers, DisableCompression: true}
	t := &target{node: m.node, web: web, client: client.New("http://"+m.node.HTTP, client.Options{Transport: transport{web, m.play.fleet.options.Key}})}
	number := int(m.play.starts.Add(1))
	for _, at := range known {
		t.processes = append(t.processes, history.Process{Number: number, Began: at})
	}
	m.target.Store(t)
}

// Play plays clients and faults on a fleet whose nodes all run, ends the faults, and
// judges. The result has the broken promises; an error means that the play could not be
// made. All nodes run at its end.
func Play(ctx context.Context, f *Fleet, o PlayOptions) (*Result, error) {
	o.Stores = max(o.Stores, 1)
	p := &play{fleet: f, options: o, began: time.Now(), faults: map[string]int{}, things: max(thingsMin, (o.Clients+o.Writers)/o.Stores)}
	p.record.errors, p.record.keys = map[string]int{}, map[string]int{}
	for i := range o.Stores {
		p.record.stores = append(p.record.stores, &ledger{number: i})
	}
	for i, n := range f.Nodes {
		m := &machine{play: p, node: n, random: rand.New(rand.NewPCG(o.Seed, uint64(i)))}
		m.enter(p.record.known())
		p.machines = append(p.machines, m)
	}
	for _, l := range p.record.stores {
		if err := p.record.prepare(ctx, p.machines[0].target.Load().client, l); err != nil {
			return nil, fmt.Errorf("a store cannot be created: %w", err)
		}
	}
	playing, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	var players sync.WaitGroup
	for i := range o.Clients + o.Writers {
		c := &player{play: p, random: rand.New(rand.NewPCG(o.Seed, uint64(100+i))), writes: i >= o.Clients}
		if i < len(p.machines) {
			c.home = p.machines[i]
		}
		players.Go(func() { c.run(playing) })
	}
	for _, m := range p.machines {
		players.Go(func() { m.disturb(playing) })
	}
	if o.CrashDatabase != nil {
		players.Go(func() { p.crashDatabase(playing) })
	}
	players.Wait()
	f.Heal()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return p.judge(ctx)
}

// judge waits until all nodes show the same, and compares it with what the clients saw.
func (p *play) judge(ctx context.Context) (*Result, error) {
	r := &p.record
	out := &Result{Made: maps.Clone(r.keys), Errors: r.errors, Faults: p.faults, Elapsed: time.Since(p.began)}
	for _, m := range p.machines {
		if err := m.node.WaitReady(ctx); err != nil {
			return nil, err
		}
		if m.target.Load() == nil {
			m.enter(r.known())
		}
	}
	for _, n := range r.keys {
		out.Calls += n
	}
	for _, l := range r.stores {
		for _, c := range l.calls {
			switch {
			case c.Outcome == history.Made:
				out.Made[c.Kind.String()]++
			case c.Outcome == history.Open && !c.Kind.IsRead():
				out.Open++
			}
		}
		log, err := p.log(ctx, l)
		if err != nil {
			return nil, err
		}
		out.Calls, out.Entries = out.Calls+len(l.calls), out.Entries+len(log)
		var past history.Past
		for i := range log {
			if err := past.Add(&log[i]); err != nil {
				r.fail("the log is wrong: %w", err)
			}
		}
		history.Bound(l.calls, past.Last())
		out.Violated = append(out.Violated, history.Judge(&past, l.calls, true)...)
	}
	out.Violated = append(r.wrong, out.Violated...)
	return out, nil
}

// log returns the log of a store, which all nodes must have.
func (p *play) log(ctx context.Context, l *ledger) (log []storage.Entry, err error) {
	for _, m := range p.machines {
		s := m.target.Load().client.Store(l.id)
		var last client.Decision
		err := patiently(func() error {
			return ask(ctx, s, "/check", map[string]any{"object": "doc:1", "relation": "viewer", "subject": "user:anne", "at": map[string]bool{"fully_consistent": true}}, &last)
		})
		if err != nil {
			return nil, fmt.Errorf("node %d, in the end: %w", m.node.Number, err)
		}
		var has []storage.Entry
		err = patiently(func() (err error) {
			has, err = entries(ctx, s)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("node %d, its log: %w", m.node.Number, err)
		}
		if len(has) != int(last.Revision) {
			p.record.fail("node %d shows revision %d, and has %d entries", m.node.Number, last.Revision, len(has))
		}
		if log == nil {
			log = has
		} else if !slices.EqualFunc(log, has, sameEntry) {
			p.record.fail("node %d has another log than node %d: %d and %d entries", m.node.Number, p.machines[0].node.Number, len(has), len(log))
		}
	}
	return log, nil
}

func sameEntry(a, b storage.Entry) bool {
	return a.Revision == b.Revision && a.Origin.Reason == b.Origin.Reason && slices.EqualFunc(a.Changes, b.Changes, func(a, b storage.Change) bool {
		return a.Kind == b.Kind && a.Tuple.Key() == b.Tuple.Key()
	})
}

// ofWriter ends the names of faults that only the node that writes has.
const ofWriter = " of the writer"

// Faults of one node. Each ends before the next one of the node begins.
var faults = []struct {
	name   string
	weight int
	play   func(m *machine, ctx context.Context)
}{
	{"kill", 4, func(m *machine, ctx context.Context) { m.restart(ctx, func() error { m.node.Kill(); return nil }) }},
	{"kill" + ofWriter, 2, func(m *machine, ctx context.Context) { m.restart(ctx, func() error { m.node.Kill(); return nil }) }},
	{"stop", 2, func(m *machine, ctx context.Context) { m.restart(ctx, m.node.Stop) }},
	{"pause", 4, (*machine).pause},
	{"pause" + ofWriter, 2, (*machine).pause},
	{"cut from nodes", 2, func(m *machine, ctx context.Context) { m.apart(ctx, Fault{Cut: true}) }},
	{"held from nodes", 2, func(m *machine, ctx context.Context) { m.apart(ctx, Fault{Hang: true}) }},
	{"slow to nodes", 1, func(m *machine, ctx context.Context) { m.apart(ctx, Fault{Delay: m.delay()}) }},
	{"held from one node", 2, (*machine).oneWay},
	{"cut from log", 2, func(m *machine, ctx context.Context) { m.toLog(ctx, Fault{Cut: true}) }},
	{"held from log", 2, func(m *machine, ctx context.Context) { m.toLog(ctx, Fault{Hang: true}) }},
	{"slow to log", 1, func(m *machine, ctx context.Context) { m.toLog(ctx, Fault{Delay: m.delay()}) }},
	{"cut from all", 2, func(m *machine, ctx context.Context) {
		m.node.ToLog.Set(Fault{Cut: true})
		m.apart(ctx, Fault{Cut: true})
		m.node.ToLog.Set(Fault{})
	}},
}

// FaultNames returns the names of all faults of nodes.
func FaultNames() []string {
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

func (p *play) count(fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[fault]++
}

// disturb makes faults at a node until ctx ends.
func (m *machine) disturb(ctx context.Context) {
	for m.wait(ctx, quietTime) {
		weights, total := m.weights(ctx)
		if total == 0 {
			continue
		}
		n := m.random.IntN(total)
		for i, f := range faults {
			if n -= weights[i]; n < 0 {
				m.play.count(f.name)
				f.play(m, ctx)
				break
			}
		}
		m.look(ctx)
	}
}

// weights returns the weights of the faults that the node can have now, and their sum.
func (m *machine) weights(ctx context.Context) (weights []int, total int) {
	names := m.play.options.Faults
	writes := m.node.Ready(ctx).Node.Role == holder
	for _, f := range faults {
		alone := (m.node.log == "" || m.node.nearLog()) && strings.HasSuffix(f.name, " log")
		if names != nil && !slices.Contains(names, f.name) || alone || !writes && strings.HasSuffix(f.name, ofWriter) {
			f.weight = 0
		}
		weights = append(weights, f.weight)
		total += f.weight
	}
	return weights, total
}

// quietTime is the longest time between two faults of a node.
const quietTime = 5 * time.Second

// look requires that the process runs, and starts it again if it does not.
func (m *machine) look(ctx context.Context) {
	select {
	case <-m.node.Ended():
	default:
		return
	}
	m.play.record.fail("node %d has ended by itself: see %s", m.node.Number, m.node.Output())
	m.target.Store(nil)
	m.start(ctx)
}

// wait waits for a random time, at most limit, and reports whether the play goes on.
func (m *machine) wait(ctx context.Context, limit time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(m.random.Int64N(int64(limit)))):
		return true
	}
}

func (m *machine) delay() time.Duration {
	return time.Duration(1+m.random.IntN(300)) * time.Millisecond
}

// pause stops the process for longer than a lease, or for shorter.
func (m *machine) pause(ctx context.Context) {
	m.node.Pause()
	m.wait(ctx, 4*time.Second)
	m.node.Resume()
}

func (m *machine) apart(ctx context.Context, f Fault) {
	m.play.fleet.Apart(m.node, f)
	m.wait(ctx, 4*time.Second)
	m.play.fleet.Apart(m.node, Fault{})
}

// oneWay holds back what this node sends and gets on the connections that it has opened to
// another one.
func (m *machine) oneWay(ctx context.Context) {
	all := m.play.fleet.Nodes
	other := all[(m.node.Number+1+m.random.IntN(len(all)-1))%len(all)]
	p := m.play.fleet.Between(m.node.Number, other.Number)
	p.Set(Fault{Hang: true})
	m.wait(ctx, 4*time.Second)
	p.Set(Fault{})
}

func (m *machine) toLog(ctx context.Context, f Fault) {
	m.node.ToLog.Set(f)
	m.wait(ctx, 4*time.Second)
	m.node.ToLog.Set(Fault{})
}

// restart ends the process and starts it again, at once or later.
func (m *machine) restart(ctx context.Context, end func() error) {
	if err := end(); err != nil {
		m.play.record.fail("%w", err)
	}
	m.target.Store(nil)
	if m.random.IntN(2) == 0 {
		m.wait(ctx, 5*time.Second)
	}
	m.start(ctx)
}

// start starts the process. While other faults last, it may not become ready; it is tried
// again if it ends.
func (m *machine) start(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	known := m.play.record.known()
	for range startsMax {
		if err := m.node.Begin(); err != nil {
			m.play.record.fail("node %d: %w", m.node.Number, err)
			return
		}
		err := m.node.WaitReady(ctx)
		if err == nil {
			m.enter(known)
			return
		}
		if !errors.Is(err, ErrEnded) {
			m.play.record.fail("%w", err)
			return
		}
		m.play.count("failed starts")
		time.Sleep(200 * time.Millisecond)
	}
	m.play.record.fail("node %d does not start: see %s", m.node.Number, m.node.Output())
}

// startsMax is how often a node is started until it counts as broken.
const startsMax = 100

// crashDatabase kills the database from time to time.
func (p *play) crashDatabase(ctx context.Context) {
	random := rand.New(rand.NewPCG(p.options.Seed, 99))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(5+random.IntN(40)) * time.Second):
			p.count("crash of the database")
			p.options.CrashDatabase()
		}
	}
}
