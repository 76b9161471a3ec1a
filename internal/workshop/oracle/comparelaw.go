package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// comparisonLaw: the difference between two revisions of a store, and the
// entitlements of a subject, agree with single checks.
func comparisonLaw(b *Bench) *Failure {
	if len(b.Questions) == 0 || !b.admissible() || !b.wellTyped() {
		return nil
	}
	t := &storeTrial{b: b}
	if err := onEngine(inMemory(), b.World.Now, t.compareAll); err != nil {
		if f := (*Failure)(nil); errors.As(err, &f) {
			return f
		}
		return &Failure{Text: err.Error()}
	}
	return nil
}

// compareAll writes a store and compares some of its differences and
// entitlements with checks.
func (t *storeTrial) compareAll(e *ostiary.Engine) error {
	t.drawHistory()
	s, err := e.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: "compared"})
	if err != nil {
		return err
	}
	t.ids[0] = s.ID()
	if t.tokens, err = t.writeHistory(s, t.history); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(t.b.Seed, 0x90))
	for _, q := range t.b.Questions[:min(4, len(t.b.Questions))] {
		if err := t.compareEntitlements(s, q); err != nil {
			return err
		}
		if _, ok := t.b.Schema.Type(q.Subject.Type); !ok || t.b.World.Model.Options.MissingContextFails {
			continue // with that option, a tuple may change an answer that it does not lead to
		}
		from := r.IntN(len(t.tokens))
		d := comparison{t: t, s: s, q: q, a: t.tokens[from], b: t.tokens[from+r.IntN(len(t.tokens)-from)], limit: 1 + r.IntN(4)}
		if err := d.compareWithChecks(); err != nil {
			return &Failure{Question: q, Text: fmt.Sprintf("between %s and %s: %v", revisionOf(d.a), revisionOf(d.b), err)}
		}
	}
	return nil
}

func revisionOf(token authz.Token) string {
	r, err := token.Revision()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(r)
}

// mentionedIDs returns, by type, the ids of all objects that the history
// mentions.
func (t *storeTrial) mentionedIDs() map[string][]string {
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
			continue // "*" is not an object
		}
		out[o.Type] = append(out[o.Type], o.ID)
	}
	return out
}

// compareEntitlements compares the entitlements of q's subject with checks.
func (t *storeTrial) compareEntitlements(s *ostiary.Store, q Question) error {
	ctx := context.Background()
	r := authz.EntitlementsRequest{Subject: q.Subject, QueryOptions: authz.QueryOptions{Context: t.b.World.Context, Bounds: authz.QuestionBounds{Depth: t.b.World.Depth}}}
	for typ, ids := range t.mentionedIDs() {
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
			want, err := s.Check(ctx, authz.CheckRequest{Object: o.Object, Relation: name, Subject: q.Subject, QueryOptions: r.QueryOptions})
			if err != nil {
				return err
			}
			truth := expr.False
			if slices.Contains(o.Relations, name) {
				truth = expr.True
			}
			if slices.ContainsFunc(o.Unknown, func(u authz.UnknownRelation) bool { return u.Relation == name }) {
				truth = expr.Unknown
			}
			if truth != want.Decision || o.Err != nil {
				return &Failure{Question: Question{o.Object, name, q.Subject}, Text: fmt.Sprintf("by entitlements %v, %v; by check %v", truth, o.Err, want)}
			}
		}
	}
	return nil
}

// comparison compares two revisions for the permission that a question is
// about.
type comparison struct {
	t     *storeTrial
	s     *ostiary.Store
	q     Question
	a, b  authz.Token // of the earlier and the later revision
	limit int         // entries of a page
}

type objectSubject struct{ object, subject string }

// strangerID is the id of an object that no tuple mentions.
const strangerID = "nobody-knows"

// compareWithChecks compares the difference with checks at both revisions.
func (d *comparison) compareWithChecks() error {
	r := authz.DifferenceRequest{From: authz.AtExactly(d.a), To: authz.AtExactly(d.b), Limit: d.limit,
		Context: d.t.b.World.Context, Bounds: authz.QuestionBounds{Depth: d.t.b.World.Depth},
		PermissionSelector: authz.PermissionSelector{ObjectType: d.q.Object.Type, Relation: d.q.Relation, SubjectType: d.q.Subject.Type}}
	said, everybody, err := d.readPages(r)
	if err != nil {
		return err
	}
	things := d.t.mentionedIDs()
	for _, object := range things[r.ObjectType] {
		stranger, err := d.truths(object, strangerID)
		if err != nil {
			return err
		}
		line, changed := everybody[object]
		if changed != (stranger[0] != stranger[1]) || changed && stranger != [2]expr.Tristate{line.Before, line.After} {
			return fmt.Errorf("%s: the decision for all subjects went from %v to %v, but the difference has %v", object, stranger[0], stranger[1], line)
		}
		for _, subject := range things[r.SubjectType] {
			want, err := d.truths(object, subject)
			if err != nil {
				return err
			}
			p, ok := said[objectSubject{object, subject}]
			got := [2]expr.Tristate{p.Before, p.After}
			switch {
			case ok && got == want && want[0] != want[1]:
			case ok:
				return fmt.Errorf("%s of %s went from %v to %v, but the difference has %v to %v", subject, object, want[0], want[1], got[0], got[1])
			case want[0] != want[1] && !(changed && want == stranger):
				return fmt.Errorf("%s of %s went from %v to %v, but the difference does not have it", subject, object, want[0], want[1])
			}
		}
	}
	return nil
}

// readPages reads all pages of a difference. It returns the changes of single
// subjects, and those of all subjects of a type by the object's id.
func (d *comparison) readPages(r authz.DifferenceRequest) (said map[objectSubject]authz.PermissionChange, everybody map[string]authz.PermissionChange, err error) {
	said, everybody = map[objectSubject]authz.PermissionChange{}, map[string]authz.PermissionChange{}
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
			k := objectSubject{p.Object.ID, p.Subject.ID}
			if _, twice := said[k]; twice {
				return nil, nil, fmt.Errorf("%v comes twice", k)
			}
			said[k] = p
		}
		if r.Cursor = page.Next; page.Next == "" {
			return said, everybody, nil
		}
		if r.From = (authz.Consistency{}); len(page.Changes) > d.limit {
			return nil, nil, fmt.Errorf("a page has %d entries, the limit is %d", len(page.Changes), d.limit)
		}
	}
}

// truths returns the decisions of a check at the two revisions.
func (d *comparison) truths(object, subject string) (out [2]expr.Tristate, err error) {
	for i, token := range []authz.Token{d.a, d.b} {
		c, err := d.s.Check(context.Background(), authz.CheckRequest{Object: rel.Object{Type: d.q.Object.Type, ID: object}, Relation: d.q.Relation,
			Subject: rel.Subject{Type: d.q.Subject.Type, ID: subject}, QueryOptions: authz.QueryOptions{Consistency: authz.AtExactly(token),
				Context: d.t.b.World.Context, Bounds: authz.QuestionBounds{Depth: d.t.b.World.Depth}}})
		if err != nil {
			return out, err
		}
		out[i] = c.Decision
	}
	return out, nil
}
