package bench

import (
	"fmt"

	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
	"github.com/ostiary/ostiary/rel"
)

// deepModel is the model of folders and groups, with a type for deep nesting and
// a type with a condition.
const deepModel = graphtest.Model + `
type box
  relations
    define parent: [box]
    define viewer: [user] or viewer from parent

type safe
  relations
    define viewer: [user with small]

condition small(amount: int, limit: int) {
  amount < limit
}
`

// Nesting is the depth of the nested boxes in the cell "deep". OpenFGA follows at
// most 25 levels.
const Nesting = 20

const (
	boxes = 50  // the number of towers of nested boxes
	safes = 500 // the number of objects with a condition
)

// data is the data of the workload "openfga".
type data struct {
	shape graphtest.Shape
}

// fanOf returns the width of the fan-out cases, which grows with the data.
func fanOf(size int) int {
	switch {
	case size < 10_000:
		return 100
	case size < 1_000_000:
		return 1_000
	}
	return 10_000
}

// listsOf returns the number of users with lists of 100 and of 1,000 documents.
// Small sizes have one, for peers that load data slowly.
func listsOf(size int) int {
	if size < 10_000 {
		return 1
	}
	return 8
}

func newData(size int) *data {
	return &data{graphtest.Shape{Tuples: size, Fan: fanOf(size), Lists: listsOf(size), Seed: 1}}
}

func user(i int) rel.Subject { return rel.Subject{Type: "user", ID: fmt.Sprint("bench-", i)} }
func box(tower, level int) rel.Object {
	return rel.Object{Type: "box", ID: fmt.Sprintf("%d-%d", tower, level)}
}
func safe(i int) rel.Object { return rel.Object{Type: "safe", ID: fmt.Sprint(i)} }

// tuples yields all tuples.
func (d *data) tuples(yield func(rel.Tuple) bool) {
	for t := range d.shape.All() {
		if !yield(t) {
			return
		}
	}
	for b := range boxes {
		for level := range Nesting {
			parent := rel.Subject{Type: "box", ID: box(b, level+1).ID}
			if !yield(rel.Tuple{Object: box(b, level), Relation: "parent", Subject: parent}) {
				return
			}
		}
		if !yield(rel.Tuple{Object: box(b, Nesting), Relation: "viewer", Subject: user(b)}) {
			return
		}
	}
	for i := range safes {
		if !yield(rel.Tuple{Object: safe(i), Relation: "viewer", Subject: user(i), Condition: "small", Context: `{"limit":100}`}) {
			return
		}
	}
}

// count returns the number of tuples.
func (d *data) count() (n int) {
	for range d.tuples {
		n++
	}
	return n
}

func ofQuestion(q graphtest.Question) Check {
	return Check{Object: q.Object, Relation: q.Relation, Subject: q.Subject, Allowed: q.Allowed}
}

func checks(questions []graphtest.Question) []Request {
	out := make([]Request, len(questions))
	for i, q := range questions {
		c := ofQuestion(q)
		out[i].Check = &c
	}
	return out
}

// batches returns requests with fifty questions each.
func batches(questions []graphtest.Question) []Request {
	var out []Request
	for len(questions) >= batchItems {
		var one []Check
		for _, q := range questions[:batchItems] {
			one = append(one, ofQuestion(q))
		}
		out, questions = append(out, Request{Batch: one}), questions[batchItems:]
	}
	return out
}

// batchItems is the number of checks that OpenFGA accepts in one batch.
const batchItems = 50

func (d *data) lists(count int) []Request {
	var out []Request
	for i := range d.shape.Lists {
		u := d.shape.ListUser(count, i)
		out = append(out, Request{List: &List{Type: "document", Relation: "viewer", Subject: rel.Subject{Type: u.Type, ID: u.ID}, Count: count}})
	}
	return out
}

func (d *data) deep() []Request {
	var out []Request
	for b := range boxes {
		for _, who := range []int{b, b + 1} {
			out = append(out, Request{Check: &Check{Object: box(b, 0), Relation: "viewer", Subject: user(who), Allowed: who == b}})
		}
	}
	return out
}

func (d *data) fan() []Request {
	var out []Request
	subject := func(o rel.Object) rel.Subject { return rel.Subject{Type: o.Type, ID: o.ID} }
	for _, allowed := range []bool{false, true} {
		out = append(out,
			Request{Check: &Check{Object: d.shape.FanDocument(allowed), Relation: "viewer", Subject: subject(d.shape.FanUser()), Allowed: allowed}},
			Request{Check: &Check{Object: d.shape.MirrorDocument(allowed), Relation: "viewer", Subject: subject(d.shape.MirrorUser()), Allowed: allowed}})
	}
	return out
}

func (d *data) conditions() []Request {
	var out []Request
	for i := range safes {
		amount := 50 + i%100
		out = append(out, Request{Check: &Check{Object: safe(i), Relation: "viewer", Subject: user(i), Context: map[string]any{"amount": amount}, Allowed: amount < 100}})
	}
	return out
}

// toggle returns a request that adds n tuples and one that removes them. The
// tuples of different clients differ.
func (d *data) toggle(client, n int) [2]Request {
	tuples := make([]rel.Tuple, n)
	for i := range tuples {
		tuples[i] = rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprintf("new-%d-%d-%d", n, client, i)}, Relation: "owner", Subject: user(i)}
	}
	return [2]Request{{Write: tuples}, {Remove: tuples}}
}
