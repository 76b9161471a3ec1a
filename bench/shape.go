package bench

import (
	"fmt"

	"github.com/ostiary/ostiary/graph/graphtest"
	"github.com/ostiary/ostiary/rel"
)

// deepModel adds to the model of folders and groups what it lacks: nesting and
// a condition.
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

// Nesting is how deep the boxes of the cell "deep" lie in each other; OpenFGA
// follows at most 25.
const Nesting = 20

// boxes is how many such towers there are, safes how many objects with a
// condition.
const (
	boxes = 50
	safes = 500
)

// data is the world of the workload "openfga".
type data struct {
	shape graphtest.Shape
}

// fanOf is how wide the fan-out cases are: the wider the more data there is.
func fanOf(size int) int {
	switch {
	case size < 10_000:
		return 100
	case size < 1_000_000:
		return 1_000
	}
	return 10_000
}

// listsOf is how many users have lists of 100 and of 1,000 documents. Small
// worlds are for peers that take minutes to load large ones.
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

// tuples yields all of it.
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

// batches puts fifty questions into a request.
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

// batchItems is the most that OpenFGA takes in a batch.
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

// toggle returns, for a client, a request that adds a hundred tuples and one
// that removes them again.
func (d *data) toggle(client, n int) [2]Request {
	tuples := make([]rel.Tuple, n)
	for i := range tuples {
		tuples[i] = rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprintf("new-%d-%d-%d", n, client, i)}, Relation: "owner", Subject: user(i)}
	}
	return [2]Request{{Write: tuples}, {Remove: tuples}}
}
