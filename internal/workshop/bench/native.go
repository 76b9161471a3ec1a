package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ostiary/ostiary/rel"
)

// NativeOptions are the settings of the workload "native".
type NativeOptions struct {
	// Size is that of [OpenFGAOptions]. Default 67,000.
	Size int
	// Watchers is the number of connections that watch changes. Default 1,000.
	Watchers int
	// Writes is the number of changes that they receive. Default 50.
	Writes int
	// Load is the load of all other cells. Default 8 clients for 3 s.
	Load Load
}

// Native measures over HTTP what the doors besides OpenFGA's offer: the same check
// through the OpenFGA, the AuthZEN and the native door; its explanation; the
// entitlements of LXD's whole listing in one call; the difference of two
// revisions; and the time until a change reaches many watchers. The targets of
// r.Sides must be [*HTTP], each optionally followed by its [*FloorTarget].
func (r *Runner) Native(ctx context.Context, o NativeOptions) error {
	if o.Size <= 0 {
		o.Size = 67_000
	}
	if o.Watchers <= 0 {
		o.Watchers = 1_000
	}
	if o.Writes <= 0 {
		o.Writes = 50
	}
	if o.Load.Clients == 0 && o.Load.Rate == 0 {
		o.Load = Load{Clients: 8, Duration: 3 * time.Second, WarmUp: 300 * time.Millisecond}
	}
	r.expect(nativeCellCount(r.Sides))
	var n *native
	for i := range r.Sides {
		s := &r.Sides[i]
		if floor, ok := s.Target.(*FloorTarget); ok && n != nil {
			if err := r.nativeCells(ctx, s, n, floor, &o); err != nil {
				return err
			}
			continue
		}
		t, ok := s.Target.(*HTTP)
		if !ok {
			return fmt.Errorf("bench: the workload native needs a server over HTTP, not %s", s.Target.Door())
		}
		n = &native{data: newData(o.Size), main: t}
		defer n.remove(ctx)
		err := n.setup(ctx, r.progress("loading "+s.Peer, n.data.count()))
		if err == nil {
			if err = r.nativeCells(ctx, s, n, nil, &o); err == nil {
				err = r.watchers(ctx, s, n, &o)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Peer, err)
		}
	}
	return nil
}

// nativeRequestCells is the number of cells with requests on each side.
const nativeRequestCells = 6

// isFloor reports whether a side is the floor of the side before it.
func isFloor(s *Side) bool {
	_, ok := s.Target.(*FloorTarget)
	return ok
}

// nativeCellCount returns the number of cells of the workload native: those with
// requests, and one with watchers on each server.
func nativeCellCount(sides []Side) (n int) {
	for i := range sides {
		if n += nativeRequestCells; !isFloor(&sides[i]) {
			n++
		}
	}
	return n
}

// native is a server with the data of the workload.
type native struct {
	data      *data
	main, lxd *HTTP  // the stores with data and with the workload "lxd"
	before    uint64 // the revision of main before differenceTuples were written
}

// setup creates and fills both stores.
func (n *native) setup(ctx context.Context, progress func(int)) error {
	t := n.main
	if err := t.Setup(ctx, deepModel, n.data.tuples, progress); err != nil {
		return err
	}
	var err error
	if n.lxd, err = NewHTTP(t.base.String(), t.token); err != nil {
		return err
	}
	if err := n.lxd.Setup(ctx, LXDModel(), lxdTuples, nil); err != nil {
		return err
	}
	// LXD sends the membership as a contextual tuple with each request. Here it is
	// stored, because entitlements are asked in one call.
	member := rel.Tuple{Object: rel.Object{Type: "group", ID: lxdGroup}, Relation: "member", Subject: rel.Subject{Type: "identity", ID: lxdIdentity}}
	if err := n.lxd.call(ctx, http.MethodPost, n.lxd.path("write"), n.lxd.write([]rel.Tuple{member}, nil), nil); err != nil {
		return err
	}
	var head struct {
		Revision uint64 `json:"revision"`
	}
	if err := t.call(ctx, http.MethodPost, "/ostiary/v1"+t.path("check"), map[string]string{"object": "document:none", "relation": "viewer", "subject": "user:none"}, &head); err != nil {
		return err
	}
	n.before = head.Revision
	pair := n.data.toggle(0, differenceTuples)
	return t.call(ctx, http.MethodPost, t.path("write"), t.write(pair[0].Write, nil), nil)
}

// differenceTuples is the number of tuples between the compared revisions. Each
// gives one subject two relations.
const differenceTuples = 10

// remove deletes the stores, also if ctx has ended.
func (n *native) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	// A store that cannot be deleted does no harm to this run.
	_ = n.main.Teardown(ctx)
	if n.lxd != nil {
		_ = n.lxd.Teardown(ctx)
	}
}

// size returns the number of tuples in the main store.
func (n *native) size() int { return n.data.count() + differenceTuples }

// cells returns the cells that send the same requests again and again.
func (n *native) cells() ([]httpCell, error) {
	questions := n.data.shape.ThreeHop(Questions)
	t := n.main
	store := "/ostiary/v1" + t.path("")
	cells := []httpCell{{name: "check, OpenFGA"}, {name: "check, AuthZEN"}, {name: "check, native"}, {name: "explain, native"}}
	var firstErr error
	add := func(cell *httpCell, on *HTTP, path string, body any, want string, count int) {
		text, err := json.Marshal(body)
		if err != nil {
			firstErr = err
		}
		cell.requests = append(cell.requests, httpRequest{conns: &on.conns, bytes: on.encode(path, text), want: []byte(want), count: count})
	}
	for _, q := range questions {
		check := ofQuestion(q)
		add(&cells[0], t, t.path("check"), t.check(&check), fmt.Sprintf(`"allowed":%t`, q.Allowed), 1)
		add(&cells[1], t, "/authzen/"+t.store+"/access/v1/evaluation", map[string]any{
			"subject":  map[string]string{"type": q.Subject.Type, "id": q.Subject.ID},
			"resource": map[string]string{"type": q.Object.Type, "id": q.Object.ID},
			"action":   map[string]string{"name": q.Relation},
		}, fmt.Sprintf(`"decision":%t`, q.Allowed), 1)
		question := map[string]string{"object": q.Object.String(), "relation": q.Relation, "subject": q.Subject.String()}
		add(&cells[2], t, store+"check", question, fmt.Sprintf(`"allowed":%t`, q.Allowed), 1)
		add(&cells[3], t, store+"explain", question, fmt.Sprintf(`"allowed":%t`, q.Allowed), 1)
	}
	entitlements := httpCell{name: "entitlements 10 × 54"}
	var objects []string
	for p := 1; p <= lxdProjects; p++ {
		objects = append(objects, lxdProject(p).String())
	}
	add(&entitlements, n.lxd, "/ostiary/v1"+n.lxd.path("entitlements"),
		map[string]any{"subject": "identity:" + lxdIdentity, "objects": objects, "relations": ProjectEntitlements()}, `"can_view_operations"`, lxdProjects)
	difference := httpCell{name: "difference of 10 tuples"}
	add(&difference, t, store+"difference", map[string]any{"object_type": "document", "relation": "viewer", "subject_type": "user",
		"from": map[string]any{"revision": n.before}, "to": map[string]any{"revision": n.before + 1}}, `"after":"true"`, differenceTuples)
	return append(cells, entitlements, difference), firstErr
}

func (r *Runner) nativeCells(ctx context.Context, s *Side, n *native, floor *FloorTarget, o *NativeOptions) error {
	cells, err := n.cells()
	if err != nil {
		return err
	}
	size := n.size()
	for _, cell := range cells {
		requests := cell.requests
		if floor != nil {
			if requests, err = floor.likeServer(ctx, n.main.base.Host, requests); err != nil {
				return fmt.Errorf("%s: %w", cell.name, err)
			}
		}
		if err := r.measure(ctx, s, Record{Workload: "native", Cell: cell.name, Size: size}, o.Load, turns(requests)); err != nil {
			return err
		}
	}
	return nil
}

// watchers opens many connections that watch changes. It measures the time from
// the start of a write until each connection has read the change.
func (r *Runner) watchers(ctx context.Context, s *Side, n *native, o *NativeOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	progress := r.progress(r.nextCell(fmt.Sprintf("%s: changes to %d watchers", s.Peer, o.Watchers)), o.Writes)
	seen := make(chan time.Time, o.Watchers)
	ready := make(chan error, o.Watchers)
	for range o.Watchers {
		wait.Go(func() { n.watch(ctx, ready, seen) })
	}
	for range o.Watchers {
		if err := <-ready; err != nil {
			return err
		}
	}
	result, writes := newResult(), newResult()
	write := n.data.toggle(1, 1)
	server, own := s.used(), OwnTime()
	for i := range o.Writes {
		start := time.Now()
		pair := write[i%2]
		if err := n.main.call(ctx, http.MethodPost, n.main.path("write"), n.main.write(pair.Write, pair.Remove), nil); err != nil {
			return err
		}
		writes.add(time.Since(start), nil)
		timeout := time.After(30 * time.Second)
		for range o.Watchers {
			select {
			case at := <-seen:
				result.add(at.Sub(start), nil)
			case <-timeout:
				result.Failures["not received within 30 s"]++
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		progress(i + 1)
	}
	for _, cell := range []struct {
		name   string
		result *Result
	}{{"change to a watcher", result}, {"write with watchers", writes}} {
		record := s.record(Record{Workload: "native", Cell: fmt.Sprintf("%s of %d", cell.name, o.Watchers), Size: n.size(), Load: fmt.Sprintf("%d writes, one after the other", o.Writes)})
		cell.result.Fill(&record)
		if received := float64(cell.result.N); received > 0 {
			record.GeneratorCPU = float64(OwnTime()-own) / received
			if s.PID != 0 {
				record.ServerCPU = float64(s.used()-server) / received
			}
		}
		if err := r.Emit(record); err != nil {
			return err
		}
	}
	return nil
}

// watch watches changes until ctx ends. It sends nil or an error to ready once it
// is connected, and the time of each change to seen.
func (n *native) watch(ctx context.Context, ready chan<- error, seen chan<- time.Time) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", n.main.base.Host)
	if err != nil {
		ready <- err
		return
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer c.Close()
	authorization := ""
	if n.main.token != "" {
		authorization = "Authorization: Bearer " + n.main.token + "\r\n"
	}
	fmt.Fprintf(c, "GET /ostiary/v1%s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n%s\r\n", n.main.path("watch"), n.main.base.Host, authorization)
	in := bufio.NewReaderSize(c, 1<<10)
	status, err := in.ReadSlice('\n')
	if err == nil && !bytes.Contains(status, []byte(" 200 ")) {
		err = &Failure{What: "watch refused: " + string(bytes.TrimSpace(status))}
	}
	ready <- err
	for err == nil {
		var line []byte
		if line, err = in.ReadSlice('\n'); err == bufio.ErrBufferFull {
			err = nil // the rest of a long line follows
		}
		if bytes.HasPrefix(line, []byte("event: entry")) {
			select {
			case seen <- time.Now():
			case <-ctx.Done():
				return
			}
		}
	}
}
