package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/rel"
)

// LXDOptions are the settings of the workload "lxd".
type LXDOptions struct {
	// Runs is the number of measured listings per cell. Default 50, as in the
	// report.
	Runs int
	// WarmUps is the number of listings before the measurement. Default 3.
	WarmUps int
}

// LXD replays the calls that LXD makes to its authorizer to list all projects
// recursively: ten projects with two profiles, two volumes and an instance each.
// The calls of a listing are made one after the other, as LXD makes them.
func (r *Runner) LXD(ctx context.Context, o LXDOptions) error {
	if o.Runs <= 0 {
		o.Runs = 50
	}
	if o.WarmUps <= 0 {
		o.WarmUps = 3
	}
	err := r.setup(ctx, LXDModel(), lxdTuples, 72)
	if err == nil {
		err = r.listings(ctx, &o)
	}
	if down := r.teardown(ctx); err == nil {
		err = down
	}
	return err
}

// listing is one row of the report.
type listing struct {
	cell  string
	notes string
	calls []Request // nil: LXD makes no calls
}

func (r *Runner) listings(ctx context.Context, o *LXDOptions) error {
	listings, measured := lxdListings(), 0
	for _, l := range listings {
		if l.calls != nil {
			measured += len(r.Sides)
		}
	}
	r.expect(measured)
	for _, l := range listings {
		for i := range r.Sides {
			s := &r.Sides[i]
			if l.calls == nil { // there is nothing to measure
				if s.Peer == "floor" {
					continue
				}
				if err := r.Emit(s.record(Record{Workload: "lxd", Cell: l.cell, Size: 72, Notes: l.notes})); err != nil {
					return err
				}
				continue
			}
			send, err := sequence(s.Target, l.calls)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.Peer, l.cell, err)
			}
			load := Load{Requests: o.Runs, Duration: -1}
			if s.Target.Door() == "embedded" {
				load.Timeout = -1
			}
			for range o.WarmUps {
				if err := send(ctx, 0, 0); err != nil {
					return fmt.Errorf("%s, %s: %w", s.Peer, l.cell, err)
				}
			}
			if err := r.measure(ctx, s, Record{Workload: "lxd", Cell: l.cell, Size: 72, Notes: l.notes}, load, send); err != nil {
				return err
			}
		}
	}
	return nil
}

// lxdListings returns the report's rows of one node.
func lxdListings() []listing {
	none := "no calls: LXD decides about such a client without its authorizer"
	all := ProjectEntitlements()
	return []listing{
		{"admin", none, nil},
		{"restricted", none, nil},
		{"fine-grained", "31 calls", lxdCalls()},
		{"fine-grained, operator", "32 calls", lxdCalls("operator")},
		{"fine-grained, all", "85 calls", lxdCalls(all...)},
	}
}

// lxdCalls returns the calls of one listing that also asks for entitlements.
func lxdCalls(entitlements ...string) []Request {
	identity := rel.Subject{Type: "identity", ID: lxdIdentity}
	own := rel.Object{Type: "identity", ID: lxdIdentity}
	contextual := []rel.Tuple{
		{Object: own, Relation: "can_view", Subject: identity},
		{Object: own, Relation: "can_delete", Subject: identity},
		{Object: rel.Object{Type: "group", ID: lxdGroup}, Relation: "member", Subject: identity},
	}
	list := func(typ, relation string, count int) Request {
		return Request{List: &List{Type: typ, Relation: relation, Subject: identity, Tuples: contextual, Count: count}}
	}
	calls := []Request{list("project", "can_view", lxdProjects)}
	for p := 1; p <= lxdProjects; p++ {
		calls = append(calls,
			list("profile", "can_view", 2*lxdProjects),
			list("storage_volume", "can_view", 2*lxdProjects),
			Request{Check: &Check{Object: lxdInstance(p), Relation: "can_view", Subject: identity, Tuples: contextual, Allowed: true}})
	}
	for _, e := range entitlements {
		count := lxdProjects
		if e == "can_edit" || e == "can_delete" {
			count = 0 // an operator may not change the project itself
		}
		calls = append(calls, list("project", e, count))
	}
	return calls
}

// sequence sends all requests, one after the other, as one.
func sequence(t Target, requests []Request) (Send, error) {
	prepared := make([]Prepared, len(requests))
	for i, q := range requests {
		p, err := t.Prepare(q)
		if err != nil {
			return nil, err
		}
		prepared[i] = p
	}
	return func(ctx context.Context, client, _ int) error {
		for _, p := range prepared {
			if err := p.Send(ctx, client); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// OtherNode ends the name of a program whose record was measured on a node of a cluster
// that is not its leader.
const OtherNode = ", other node"

// LXDPublished returns the report's rows. Canonical measured them in December 2024
// on a cluster of three nodes. They include the whole requests to LXD.
func LXDPublished() []Record {
	const source = "canonical/lxd#14557, \"Benchmarking OpenFGA\""
	const scope = "the whole request to LXD, of which the authorizer's calls are a part"
	ms := float64(time.Millisecond)
	row := func(peer, cell string, mean, median, sd, low, high float64) Record {
		return Record{Kind: Quoted, Source: source, Scope: scope, Workload: "lxd", Cell: cell, Door: "embedded", Peer: peer, Store: "dqlite", N: 50,
			Mean: mean * ms, Median: median * ms, SD: sd * ms, Min: low * ms, Max: high * ms}
	}
	const before, cached, concurrent, layli = "LXD, before", "LXD, request cache", "LXD, cache and concurrency", "LXD, datastore cache"
	return []Record{
		row(before, "fine-grained", 438, 435, 15, 411, 491), row(before, "restricted", 34, 34, 2, 31, 48), row(before, "admin", 37, 36, 2, 34, 46),
		row(before+OtherNode, "fine-grained", 667, 664, 26, 617, 789), row(before+OtherNode, "restricted", 35, 35, 1, 33, 45), row(before+OtherNode, "admin", 41, 40, 4, 36, 67),
		row(cached, "fine-grained", 144, 141, 13, 130, 216), row(cached, "fine-grained, operator", 142, 139, 9, 124, 180),
		row(cached+OtherNode, "fine-grained", 188, 188, 7, 171, 210), row(cached+OtherNode, "fine-grained, operator", 197, 197, 9, 173, 218),
		row(concurrent, "fine-grained", 122, 119, 10, 105, 151), row(concurrent, "fine-grained, operator", 126, 122, 14, 107, 190), row(concurrent, "fine-grained, all", 240, 237, 14, 219, 283),
		row(concurrent+OtherNode, "fine-grained", 156, 154, 11, 134, 192), row(concurrent+OtherNode, "fine-grained, operator", 158, 156, 9, 134, 181), row(concurrent+OtherNode, "fine-grained, all", 331, 329, 18, 290, 398),
		row(layli, "fine-grained", 159, 157, 12, 138, 206), row(layli, "fine-grained, operator", 161, 156, 2, 143, 232), row(layli, "fine-grained, all", 285, 281, 19, 258, 363),
		row(layli+OtherNode, "fine-grained", 202, 199, 16, 180, 291), row(layli+OtherNode, "fine-grained, operator", 204, 202, 10, 186, 240), row(layli+OtherNode, "fine-grained, all", 375, 370, 25, 345, 486),
	}
}
