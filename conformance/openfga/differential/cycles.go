package differential

import (
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
)

// dependencies is the graph of the relations of objects in a world. Its nodes are
// "type:id#relation", with an edge to each node that a node reads. An edge is
// negative if it is below the subtracted side of an exclusion.
type dependencies struct {
	relations map[string]map[string]*openfgav1.Userset
	tuples    map[string][]string
	edges     map[string][]dependency
}

type dependency struct {
	on       string
	negative bool
}

func dependenciesOf(w *World) *dependencies {
	d := &dependencies{
		relations: map[string]map[string]*openfgav1.Userset{},
		tuples:    map[string][]string{},
		edges:     map[string][]dependency{},
	}
	for _, t := range w.Model.GetTypeDefinitions() {
		d.relations[t.GetType()] = t.GetRelations()
	}
	for _, list := range [][]*openfgav1.TupleKey{w.Stored, w.Contextual} {
		for _, t := range list {
			node := t.GetObject() + "#" + t.GetRelation()
			d.tuples[node] = append(d.tuples[node], t.GetUser())
		}
	}
	return d
}

// reachable returns the nodes that a node reaches, itself included. It adds their
// edges.
func (d *dependencies) reachable(node string) map[string]bool {
	seen := map[string]bool{}
	for open := []string{node}; len(open) > 0; {
		n := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		for _, e := range d.read(n) {
			open = append(open, e.on)
		}
	}
	return seen
}

// read returns the edges of a node.
func (d *dependencies) read(node string) []dependency {
	if e, ok := d.edges[node]; ok {
		return e
	}
	object, relation, _ := strings.Cut(node, "#")
	typ, _, _ := strings.Cut(object, ":")
	var out []dependency
	var walk func(r *openfgav1.Userset, negative bool)
	walk = func(r *openfgav1.Userset, negative bool) {
		switch u := r.GetUserset().(type) {
		case *openfgav1.Userset_This:
			for _, user := range d.tuples[node] {
				if strings.Contains(user, "#") {
					out = append(out, dependency{user, negative})
				}
			}
		case *openfgav1.Userset_ComputedUserset:
			out = append(out, dependency{object + "#" + u.ComputedUserset.GetRelation(), negative})
		case *openfgav1.Userset_TupleToUserset:
			for _, parent := range d.tuples[object+"#"+u.TupleToUserset.GetTupleset().GetRelation()] {
				out = append(out, dependency{parent + "#" + u.TupleToUserset.GetComputedUserset().GetRelation(), negative})
			}
		case *openfgav1.Userset_Union:
			for _, c := range u.Union.GetChild() {
				walk(c, negative)
			}
		case *openfgav1.Userset_Intersection:
			for _, c := range u.Intersection.GetChild() {
				walk(c, negative)
			}
		case *openfgav1.Userset_Difference:
			walk(u.Difference.GetBase(), negative)
			walk(u.Difference.GetSubtract(), true)
		}
	}
	if r, ok := d.relations[typ][relation]; ok {
		walk(r, false)
	}
	d.edges[node] = out
	return out
}

// subtractsCycle reports whether a node reaches an exclusion whose subtracted side
// reaches a cycle.
func (d *dependencies) subtractsCycle(node string) bool {
	for n := range d.reachable(node) {
		for _, e := range d.read(n) {
			if e.negative && d.reachesCycle(e.on) {
				return true
			}
		}
	}
	return false
}

// reachesCycle reports whether a node reaches a cycle.
func (d *dependencies) reachesCycle(node string) bool {
	for n := range d.reachable(node) {
		for _, e := range d.read(n) {
			if d.reachable(e.on)[n] {
				return true
			}
		}
	}
	return false
}
