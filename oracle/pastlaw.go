package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// comparisonLaw: what a store says of the difference between two revisions, and
// of one subject's entitlements, is what its checks say one by one.
func comparisonLaw(b *Bench) *Failure {
	if len(b.Questions) == 0 || !b.admissible() || !b.wellTyped() {
		return nil
	}
	t := &trial{b: b}
	if err := t.compareAll(); err != nil {
		if f := (*Failure)(nil); errors.As(err, &f) {
			return f
		}
		return &Failure{Text: err.Error()}
	}
	return nil
}

func (t *trial) compareAll() (err error) {
	driver, err := inMemory()()
	if err != nil {
		return err
	}
	e, err := ostiary.Open(context.Background(), ostiary.Options{Driver: driver, Conditions: Conditions{}, Window: -1,
		Clock: t.b.World.Now.Time})
	if err != nil {
		return errors.Join(err, driver.Close())
	}
	defer func() { err = errors.Join(err, e.Close(), driver.Close()) }()
	t.history = Route(t.b.Seed, &t.b.World)
	for i, changes := range t.history.Revisions {
		t.history.Revisions[i] = slices.DeleteFunc(changes, refused)
	}
	s, err := e.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: "compared"})
	if err != nil {
		return err
	}
	t.ids[0] = s.ID()
	if t.tokens, err = t.fill(s, t.history); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(t.b.Seed, 0x90))
	for _, q := range t.b.Questions[:min(4, len(t.b.Questions))] {
		if err := t.entitled(s, q); err != nil {
			return err
		}
		if _, ok := t.b.Schema.Type(q.Subject.Type); !ok || t.b.World.Model.Options.MissingContextFails {
			continue // with that option an edge may change an answer that it does not lead to
		}
		from := r.IntN(len(t.tokens))
		d := between{t: t, s: s, q: q, a: t.tokens[from], b: t.tokens[from+r.IntN(len(t.tokens)-from)], limit: 1 + r.IntN(4)}
		if err := d.compare(); err != nil {
			return &Failure{Question: q, Text: fmt.Sprintf("between %s and %s: %v", revisionOf(d.a), revisionOf(d.b), err)}
		}
	}
	return nil
}

func revisionOf(token ostiary.Token) string {
	r, err := token.Revision()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(r)
}

// things are all objects of which the store's life tells, and a stranger of
// each type that has a name.
func (t *trial) things() map[string][]string {
	seen := map[rel.Object]bool{}
	for _, changes := range t.history.Revisions {
		for _, c := range changes {
			if c.Kind == storage.TupleAdd {
				seen[c.Tuple.Object] = true
				if !c.Tuple.Subject.IsWildcard() {
					seen[c.Tuple.Subject.Object()] = true
				}
			}
			if c.Kind == storage.AttributeSet {
				seen[c.Attribute.Object] = true
			}
		}
	}
	out := map[string][]string{}
	for o := range seen {
		if o.ID == rel.Wildcard {
			continue // it stands for all of its type and is none of them
		}
		out[o.Type] = append(out[o.Type], o.ID)
	}
	return out
}

// entitled holds entitlements against checks.
func (t *trial) entitled(s *ostiary.Store, q Question) error {
	ctx := context.Background()
	r := ostiary.EntitlementsRequest{Subject: q.Subject, QueryOptions: ostiary.QueryOptions{Context: t.b.World.Context, Bounds: eval.Bounds{Depth: t.b.World.Depth}}}
	for typ, ids := range t.things() {
		for _, id := range ids {
			r.Objects = append(r.Objects, rel.Object{Type: typ, ID: id})
		}
	}
	got, err := s.Entitlements(ctx, r)
	if err != nil {
		return err
	}
	for _, o := range got.Objects {
		typ, ok := t.b.Schema.Type(o.Object.Type)
		if !ok {
			continue
		}
		for _, id := range t.b.Schema.RelationsOf(typ) {
			name := t.b.Schema.Relations[id].Name
			want, err := s.Check(ctx, ostiary.CheckRequest{Object: o.Object, Relation: name, Subject: q.Subject, QueryOptions: r.QueryOptions})
			if err != nil {
				return err
			}
			truth := expr.False
			if slices.Contains(o.Relations, name) {
				truth = expr.True
			}
			if slices.ContainsFunc(o.Unknown, func(u ostiary.UnknownRelation) bool { return u.Relation == name }) {
				truth = expr.Unknown
			}
			if truth != want.Decision || o.Err != nil {
				return &Failure{Question: Question{o.Object, name, q.Subject}, Text: fmt.Sprintf("entitlements say %v, %v; check says %v", truth, o.Err, want)}
			}
		}
	}
	return nil
}

// between compares two revisions about the permission of a question.
type between struct {
	t     *trial
	s     *ostiary.Store
	q     Question
	a, b  ostiary.Token
	limit int
}

type comparedPair struct{ object, subject string }

// strangerID names nobody of whom a tuple tells.
const strangerID = "nobody-knows"

func (d *between) compare() error {
	r := ostiary.DifferenceRequest{From: ostiary.AtExactly(d.a), To: ostiary.AtExactly(d.b), Limit: d.limit,
		Context: d.t.b.World.Context, Bounds: eval.Bounds{Depth: d.t.b.World.Depth},
		PermissionSelector: ostiary.PermissionSelector{ObjectType: d.q.Object.Type, Relation: d.q.Relation, SubjectType: d.q.Subject.Type}}
	said, everybody, err := d.pages(r)
	if err != nil {
		return err
	}
	things := d.t.things()
	for _, object := range things[r.ObjectType] {
		stranger, err := d.change(object, strangerID)
		if err != nil {
			return err
		}
		line, changed := everybody[object]
		if changed != (stranger[0] != stranger[1]) || changed && stranger != [2]expr.Tristate{line.Before, line.After} {
			return fmt.Errorf("%s: everybody went from %v to %v, it says %v", object, stranger[0], stranger[1], line)
		}
		for _, subject := range things[r.SubjectType] {
			want, err := d.change(object, subject)
			if err != nil {
				return err
			}
			p, ok := said[comparedPair{object, subject}]
			got := [2]expr.Tristate{p.Before, p.After}
			switch {
			case ok && got == want && want[0] != want[1]:
			case ok:
				return fmt.Errorf("%s of %s went from %v to %v, it says from %v to %v", subject, object, want[0], want[1], got[0], got[1])
			case want[0] != want[1] && !(changed && want == stranger):
				return fmt.Errorf("%s of %s went from %v to %v, and it says nothing", subject, object, want[0], want[1])
			}
		}
	}
	return nil
}

// pages reads all pages.
func (d *between) pages(r ostiary.DifferenceRequest) (said map[comparedPair]ostiary.PermissionChange, everybody map[string]ostiary.PermissionChange, err error) {
	said, everybody = map[comparedPair]ostiary.PermissionChange{}, map[string]ostiary.PermissionChange{}
	for {
		page, err := d.s.Difference(context.Background(), r)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range page.Changes {
			if p.AllOthers {
				everybody[p.Object.ID] = p
				continue
			}
			k := comparedPair{p.Object.ID, p.Subject.ID}
			if _, twice := said[k]; twice {
				return nil, nil, fmt.Errorf("%v comes twice", k)
			}
			said[k] = p
		}
		if r.Cursor = page.Next; page.Next == "" {
			return said, everybody, nil
		}
		if r.From = (ostiary.Consistency{}); len(page.Changes) > d.limit {
			return nil, nil, fmt.Errorf("a page of %d, the limit is %d", len(page.Changes), d.limit)
		}
	}
}

func (d *between) change(object, subject string) (out [2]expr.Tristate, err error) {
	for i, token := range []ostiary.Token{d.a, d.b} {
		c, err := d.s.Check(context.Background(), ostiary.CheckRequest{Object: rel.Object{Type: d.q.Object.Type, ID: object}, Relation: d.q.Relation,
			Subject: rel.Subject{Type: d.q.Subject.Type, ID: subject}, QueryOptions: ostiary.QueryOptions{Consistency: ostiary.AtExactly(token),
				Context: d.t.b.World.Context, Bounds: eval.Bounds{Depth: d.t.b.World.Depth}}})
		if err != nil {
			return out, err
		}
		out[i] = c.Decision
	}
	return out, nil
}
