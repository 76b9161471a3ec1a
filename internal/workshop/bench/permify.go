package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// permifySchema has the meaning of the load test's schema: users see content that
// is their own, that is public, or whose owner they follow, unless the owner has
// blocked them.
const permifySchema = `
entity user {
    relation self @user
    relation follower @user
    relation blocked @user
    attribute is_public boolean
    permission view = self or (is_public or follower) not blocked
}

entity content {
    relation owner @user
    attribute is_public boolean
    permission view = owner.self or (is_public or owner.follower) not owner.blocked
}

entity interaction {
    relation creator @user
    relation parent @content
    permission view = creator.self or (creator.view and parent.view)
}
`

// permifyWriteItems is the number of tuples and attributes in one write.
const permifyWriteItems = 500

// PermifyOptions are the settings of the workload "permify".
type PermifyOptions struct {
	// IDs is the number of users, of contents and of interactions. There are about
	// ten tuples and attributes for each of them. Default 100,000.
	IDs int
	// Load is the load of each cell except the ramp. Default 8 clients for 3 s.
	Load Load
	// PeakRate adds the load test's ramp: from 10 to 100 requests/s, then to 1,000,
	// then to PeakRate. 0 leaves the ramp out.
	PeakRate float64
	// Ramp is how long the three stages of the ramp and the steady rate after them
	// take. Default 5, 15, 30 and 10 s, as in the load test.
	Ramp [permifyRampCells]time.Duration
}

// Permify runs the load test that Permify publishes for its REST API. It writes
// the data through the API, as the first cell. The targets of r.Sides must be
// [*HTTP], each optionally followed by its [*FloorTarget].
func (r *Runner) Permify(ctx context.Context, o PermifyOptions) error {
	if o.IDs <= 0 {
		o.IDs = 100_000
	}
	if o.Load.Clients == 0 && o.Load.Rate == 0 {
		o.Load = Load{Clients: 8, Duration: 3 * time.Second, WarmUp: 300 * time.Millisecond}
	}
	if o.Ramp == ([permifyRampCells]time.Duration{}) {
		o.Ramp = [...]time.Duration{5 * time.Second, 15 * time.Second, 30 * time.Second, 10 * time.Second}
	}
	r.expect(permifyCellCount(r.Sides, &o))
	var last *permify
	for i := range r.Sides {
		s := &r.Sides[i]
		if floor, ok := s.Target.(*FloorTarget); ok && last != nil {
			if err := r.permifyFloor(ctx, s, last, floor, &o); err != nil {
				return err
			}
			continue
		}
		t, ok := s.Target.(*HTTP)
		if !ok {
			return fmt.Errorf("bench: the workload permify needs a server over HTTP, not %s", s.Target.Door())
		}
		p := &permify{HTTP: t, n: o.IDs, tenant: "bench" + strconv.FormatInt(time.Now().UnixMilli(), 36)}
		if err := r.permifySide(ctx, s, p, &o); err != nil {
			return fmt.Errorf("%s: %w", s.Peer, err)
		}
		last = p
	}
	return nil
}

// permifyCellCount returns the number of cells of the workload permify: the checks,
// and on each server the writes and the ramp.
func permifyCellCount(sides []Side, o *PermifyOptions) (n int) {
	for i := range sides {
		n += permifyCells
		if isFloor(&sides[i]) {
			continue
		}
		if n++; o.PeakRate > 0 {
			n += permifyRampCells
		}
	}
	return n
}

const (
	// permifyCells is the number of cells of checks.
	permifyCells = 2
	// permifyRampCells is the number of cells of the ramp: its three stages, and the
	// steady rate after it.
	permifyRampCells = 4
)

// permifyFloor sends the requests of the previous side to its floor.
func (r *Runner) permifyFloor(ctx context.Context, s *Side, p *permify, floor *FloorTarget, o *PermifyOptions) error {
	for _, cell := range p.cells() {
		requests, err := floor.likeServer(ctx, p.base.Host, cell.requests)
		if err != nil {
			return fmt.Errorf("%s: %w", cell.name, err)
		}
		if err := r.measure(ctx, s, Record{Workload: "permify", Cell: cell.name, Size: p.items()}, o.Load, turns(requests)); err != nil {
			return err
		}
	}
	return nil
}

// turns sends requests one after the other, again and again.
func turns(requests []httpRequest) Send {
	return func(ctx context.Context, client, i int) error { return requests[i%len(requests)].Send(ctx, client) }
}

// httpCell is a cell with its requests for one server.
type httpCell struct {
	name     string
	requests []httpRequest
}

func (p *permify) cells() []httpCell {
	return []httpCell{{"check", p.check()}, {"bulk check 100", p.bulk()}}
}

func (r *Runner) permifySide(ctx context.Context, s *Side, p *permify, o *PermifyOptions) error {
	if err := p.call(ctx, http.MethodPost, "/v1/tenants/create", map[string]string{"id": p.tenant, "name": p.tenant}, nil); err != nil {
		return err
	}
	if err := p.call(ctx, http.MethodPost, p.path("schemas/write"), map[string]string{"schema": permifySchema}, nil); err != nil {
		return err
	}
	record := func(cell string) Record { return Record{Workload: "permify", Cell: cell, Size: p.items()} }
	writes := p.writes()
	load := Load{Clients: 4, Requests: len(writes), Duration: -1}
	if err := r.measure(ctx, s, record("write 500"), load, turns(writes)); err != nil {
		return err
	}
	for _, cell := range p.cells() {
		if err := r.measure(ctx, s, record(cell.name), o.Load, turns(cell.requests)); err != nil {
			return err
		}
	}
	if o.PeakRate <= 0 {
		return nil
	}
	return r.permifyRamp(ctx, s, p, o, record)
}

// permifyRamp runs the load test's ramp. It measures the last stage and the steady rate
// after it.
func (r *Runner) permifyRamp(ctx context.Context, s *Side, p *permify, o *PermifyOptions, record func(string) Record) error {
	send := turns(p.check())
	for _, stage := range []Load{{Rate: 10, RateEnd: 100, Duration: o.Ramp[0]}, {Rate: 100, RateEnd: 1000, Duration: o.Ramp[1]}} {
		r.progress(r.nextCell(fmt.Sprintf("%s: %.0f to %.0f requests/s", s.Peer, stage.Rate, stage.RateEnd)), 0)
		if _, err := stage.Run(ctx, send); err != nil {
			return err
		}
	}
	ramp := Load{Rate: 1000, RateEnd: o.PeakRate, Duration: o.Ramp[2], Clients: 1000}
	if err := r.measure(ctx, s, record("ramp"), ramp, send); err != nil {
		return err
	}
	return r.measure(ctx, s, record("steady"), Load{Rate: o.PeakRate, Duration: o.Ramp[3], Clients: 1000}, send)
}

// permify is one tenant of a server. Its data is generated from numbers, so that
// the correct answer of each request is known.
type permify struct {
	*HTTP
	n      int // PermifyOptions.IDs
	tenant string

	once      sync.Once     // calls generate
	generated []httpRequest // the requests that write the data
	count     int           // the number of tuples and attributes
	world     permifyWorld
}

// permifyWorld is the data that determines the answers of checks.
type permifyWorld struct {
	followers [][5]int32 // by user
	blocked   []int32    // by user: whom the user blocked, or -1
	owner     []int32    // by content
	public    []bool     // by content
}

func (p *permify) path(call string) string { return "/v1/tenants/" + p.tenant + "/" + call }

// items returns the number of tuples and attributes.
func (p *permify) items() int { p.writes(); return p.count }

// writes returns the requests that write the data.
func (p *permify) writes() []httpRequest {
	p.once.Do(p.generate)
	return p.generated
}

// generate generates the data and the requests that write it.
func (p *permify) generate() {
	rng := rand.New(rand.NewPCG(1, uint64(p.n)))
	w := permifyWorld{make([][5]int32, p.n), make([]int32, p.n), make([]int32, p.n), make([]bool, p.n)}
	var tuples, attributes []string
	flush := func() {
		body := `{"metadata":{"schema_version":""},"tuples":[` + strings.Join(tuples, ",") + `],"attributes":[` + strings.Join(attributes, ",") + `]}`
		p.generated = append(p.generated, httpRequest{conns: &p.conns, bytes: p.encode(p.path("data/write"), []byte(body)), count: -1})
		p.count += len(tuples) + len(attributes)
		tuples, attributes = tuples[:0], attributes[:0]
	}
	full := func() {
		if len(tuples)+len(attributes) == permifyWriteItems {
			flush()
		}
	}
	tuple := func(typ string, id int, relation, subject string, sub int32) {
		tuples = append(tuples, fmt.Sprintf(`{"entity":{"type":%q,"id":"%d"},"relation":%q,"subject":{"type":%q,"id":"%d"}}`, typ, id, relation, subject, sub))
		full()
	}
	public := func(typ string, id int) {
		attributes = append(attributes, fmt.Sprintf(`{"entity":{"type":%q,"id":"%d"},"attribute":"is_public","value":{"@type":"type.googleapis.com/base.v1.BooleanValue","data":true}}`, typ, id))
		full()
	}
	anyone := func() int32 { return int32(rng.IntN(p.n)) }
	for u := range p.n {
		tuple("user", u, "self", "user", int32(u))
		for i := range w.followers[u] {
			w.followers[u][i] = anyone()
			tuple("user", u, "follower", "user", w.followers[u][i])
		}
		w.blocked[u] = -1
		if rng.IntN(2) == 0 {
			w.blocked[u] = anyone()
			tuple("user", u, "blocked", "user", w.blocked[u])
		}
		if rng.IntN(5) == 0 {
			public("user", u)
		}
	}
	for c := range p.n {
		w.owner[c] = anyone()
		tuple("content", c, "owner", "user", w.owner[c])
		if w.public[c] = rng.IntN(10) < 3; w.public[c] {
			public("content", c)
		}
	}
	for i := range p.n {
		tuple("interaction", i, "creator", "user", anyone())
		tuple("interaction", i, "parent", "content", anyone())
	}
	if len(tuples)+len(attributes) > 0 {
		flush()
	}
	p.world = w
}

// sees returns the correct answer for the permission view of a content.
func (w *permifyWorld) sees(content, user int) bool {
	owner := w.owner[content]
	u := int32(user)
	allowed := owner == u || w.public[content]
	for _, f := range w.followers[owner] {
		allowed = allowed || f == u
	}
	return allowed && w.blocked[owner] != u
}

// permifyQuestion is a check of the load test: may the user view the content?
type permifyQuestion struct{ content, user int }

// questions draws the checks in the way of the load test's script: with a
// probability of 0.3, an id is the same as the previous one.
func (p *permify) questions() []permifyQuestion {
	rng := rand.New(rand.NewPCG(2, uint64(p.n)))
	last := rng.IntN(p.n)
	draw := func() int {
		if rng.IntN(10) >= 3 {
			last = rng.IntN(p.n)
		}
		return last
	}
	out := make([]permifyQuestion, Questions)
	for i := range out {
		out[i] = permifyQuestion{draw(), draw()}
	}
	return out
}

const permifyMeta = `"metadata":{"snap_token":"","schema_version":"","depth":20}`

// check returns single checks. Like the load test's requests they have a field
// that the API does not define, "page_size".
func (p *permify) check() []httpRequest {
	requests := make([]httpRequest, Questions)
	for i, q := range p.questions() {
		want := "CHECK_RESULT_DENIED"
		if p.world.sees(q.content, q.user) {
			want = "CHECK_RESULT_ALLOWED"
		}
		body := fmt.Sprintf(`{%s,"entity":{"type":"content","id":"%d"},"permission":"view","subject":{"type":"user","id":"%d"},"page_size":20}`, permifyMeta, q.content, q.user)
		requests[i] = httpRequest{conns: &p.conns, bytes: p.encode(p.path("permissions/check"), []byte(body)), want: []byte(want), count: 1}
	}
	return requests
}

// bulk returns bulk checks of a hundred items.
func (p *permify) bulk() []httpRequest {
	const items = 100
	questions := p.questions()
	requests := make([]httpRequest, Questions/items)
	for i := range requests {
		var list []json.RawMessage
		allowed := 0
		for _, q := range questions[i*items : (i+1)*items] {
			if p.world.sees(q.content, q.user) {
				allowed++
			}
			list = append(list, json.RawMessage(fmt.Sprintf(`{"entity":{"type":"content","id":"%d"},"permission":"view","subject":{"type":"user","id":"%d"}}`, q.content, q.user)))
		}
		text, err := json.Marshal(list)
		if err != nil {
			panic(err) // cannot happen: the text above is JSON
		}
		body := fmt.Sprintf(`{%s,"items":%s}`, permifyMeta, text)
		requests[i] = httpRequest{conns: &p.conns, bytes: p.encode(p.path("permissions/bulk-check"), []byte(body)), want: []byte("CHECK_RESULT_ALLOWED"), count: allowed}
	}
	return requests
}

// PermifyPublished are the load test's own figures, and those of Permify on a
// machine like the one that this project is measured on.
func PermifyPublished() []Record {
	const ms = float64(time.Millisecond)
	const here = "Permify 1.7.3 on PostgreSQL 15, 100,000 ids, client, server and database on 2 cores"
	return []Record{
		{Kind: Quoted, Source: "Permify's published load test, 1.3.0 on Google Kubernetes Engine and Cloud SQL; 271,664 iterations dropped", Workload: "permify", Cell: "ramp", Door: "http", Peer: "permify", PeerVersion: "1.3.0", Store: "postgres",
			N: 75369, Mean: 10.14 * ms, Median: 7.44 * ms, Min: 1.61 * ms, Max: 295.29 * ms, P90: 14.3 * ms, Throughput: 745.9},
		{Kind: Quoted, Source: here + "; 145,896 iterations dropped", Workload: "permify", Cell: "ramp", Door: "http", Peer: "permify", PeerVersion: "1.7.3", Store: "postgres", Size: 1_000_282,
			N: 27619, Median: 136 * ms, P90: 205 * ms, P99: 277 * ms, Max: 588 * ms, Throughput: 551.6},
		{Kind: Quoted, Source: here, Workload: "permify", Cell: "check", Door: "http", Peer: "permify", PeerVersion: "1.7.3", Store: "postgres", Size: 1_000_282,
			Median: 22 * ms, P90: 90 * ms, P99: 149 * ms, Throughput: 278},
		{Kind: Quoted, Source: here, Workload: "permify", Cell: "bulk check 50", Door: "http", Peer: "permify", PeerVersion: "1.7.3", Store: "postgres", Size: 1_000_282,
			Median: 233 * ms, P99: 433 * ms, Throughput: 16.4},
		{Kind: Quoted, Source: here, Workload: "permify", Cell: "write 500", Door: "http", Peer: "permify", PeerVersion: "1.7.3", Store: "postgres", Size: 1_000_282,
			Median: 77 * ms, P99: 131 * ms, Throughput: 49},
	}
}
