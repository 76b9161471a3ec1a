package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// listObjectsLaw: the list of objects is what check is true for, whole and by
// pages.
func listObjectsLaw(b *Bench) *Failure {
	type asked struct {
		subject       rel.Subject
		typ, relation string
	}
	done := map[asked]bool{}
	for _, q := range b.Questions {
		k := asked{q.Subject, q.Object.Type, q.Relation}
		if done[k] {
			continue
		}
		done[k] = true
		if text := b.listObjects(q); text != "" {
			return &Failure{Question: q, Text: text}
		}
	}
	return nil
}

func (b *Bench) listObjects(q Question) string {
	lq := eval.ListObjectsQuestion{Type: q.Object.Type, Relation: q.Relation, Subject: q.Subject}
	ctx, v := context.Background(), b.graph.View()
	whole, err := b.binding.ListObjects(ctx, v, lq, &b.env)
	if !b.admissible() {
		if !errors.Is(err, eval.ErrTuple) {
			return fmt.Sprintf("want ErrTuple for a contextual tuple, got %v", err)
		}
		return ""
	}
	if err != nil {
		return err.Error()
	}
	if b.Coverage != nil {
		b.Coverage.Lists++
	}
	var want, unknown []string
	for _, x := range b.Oracle.listed(q) {
		if x.Type != q.Object.Type {
			continue
		}
		switch b.table(q.Subject).Truth(x, q.Relation) {
		case expr.True:
			want = append(want, x.ID)
		case expr.Unknown:
			unknown = append(unknown, x.ID)
		}
	}
	inOrder(want)
	inOrder(unknown)
	spare := b.Oracle.spare(q)
	if spare != "" && (slices.Contains(whole.IDs, spare) || slices.Contains(whole.Unknown, spare)) {
		return ""
	}
	count := whole.UnknownCount
	if spare != "" && count == len(unknown)+1 && count > eval.UnknownMax {
		count-- // the spare one is among those that are counted and not named
	}
	switch {
	case whole.More:
		return "the whole list says that there is more"
	case whole.Bound != "":
		return b.cutList(whole, want, unknown)
	case !slices.Equal(whole.IDs, want):
		return fmt.Sprintf("want %v, got %v", want, whole.IDs)
	case !b.World.Model.Options.MissingContextFails &&
		(!slices.Equal(whole.Unknown, unknown[:min(len(unknown), eval.UnknownMax)]) || count != len(unknown)):
		return fmt.Sprintf("want %v unknown, got %v (%d)", unknown, whole.Unknown, whole.UnknownCount)
	}
	if b.World.Model.Options.MissingContextFails {
		unknown = nil
	}
	return b.pages(lq, want, unknown)
}

// cutList: a list that a bound cut holds nothing that is wrong.
func (b *Bench) cutList(l eval.ObjectList, want, unknown []string) string {
	for _, id := range l.IDs {
		if !slices.Contains(want, id) {
			return fmt.Sprintf("want %v, got %v (cut by %s)", want, l.IDs, l.Bound)
		}
	}
	if len(unknown) == 0 {
		return fmt.Sprintf("cut by %s, but no check is unknown", l.Bound)
	}
	return ""
}

// pages asks for a list by small pages; short ones tell of the undecided each
// in its part of the list.
func (b *Bench) pages(lq eval.ListObjectsQuestion, want, unknown []string) string {
	var got, open []string
	lq.UnknownPerPage = b.Seed%2 == 0
	for lq.Limit = 1 + int(b.Seed%3); ; {
		page, err := b.binding.ListObjects(context.Background(), b.graph.View(), lq, &b.env)
		if err != nil {
			return "page: " + err.Error()
		}
		got, open = append(got, page.IDs...), append(open, page.Unknown...)
		if !page.More {
			break
		}
		if len(page.IDs) != lq.Limit {
			return fmt.Sprintf("a page of %d says that there is more, and holds %d", lq.Limit, len(page.IDs))
		}
		lq.After = page.Next
	}
	if !slices.Equal(got, want) {
		return fmt.Sprintf("want %v, got %v by pages of %d", want, got, lq.Limit)
	}
	slices.Sort(open)
	if len(unknown) > eval.UnknownMax { // pages name that many
		return ""
	}
	for _, id := range unknown {
		if _, found := slices.BinarySearch(open, id); !found {
			return fmt.Sprintf("%s is unknown, on no page of %d", id, lq.Limit)
		}
	}
	return ""
}

// listed are the objects that a list may name: those of which a tuple or an
// attribute tells. A userset is besides listed as a member of itself, though
// nothing may tell of its object; what else may be listed of such an object is
// left open (see spare).
func (o *Oracle) listed(q Question) []rel.Object {
	all := slices.Clone(o.objects)
	own := q.Subject.Object()
	if !o.mentioned[own] && q.Subject.Relation == q.Relation && own.Type == q.Object.Type {
		all = append(all, own)
	}
	return all
}

// spare is the id of the subject's own object where nothing tells of it, and
// the question is not that of itself; "" where there is none.
func (o *Oracle) spare(q Question) string {
	own := q.Subject.Object()
	if o.mentioned[own] || own.Type != q.Object.Type || q.Subject.Relation == q.Relation {
		return ""
	}
	return own.ID
}

// inOrder sorts ids as lists do.
func inOrder(ids []string) {
	slices.SortFunc(ids, byPosition)
}

func byPosition(a, b string) int { return eval.PositionOf(a).Compare(eval.PositionOf(b)) }

// listSubjectsLaw: the list of subjects says of everybody what check says,
// whole and by pages.
func listSubjectsLaw(b *Bench) *Failure {
	type asked struct {
		object                    rel.Object
		relation, typ, ofRelation string
	}
	done := map[asked]bool{}
	for _, q := range b.Questions {
		k := asked{q.Object, q.Relation, q.Subject.Type, q.Subject.Relation}
		if done[k] || len(done) == subjectListsMax || b.Oracle.types[k.typ] == nil ||
			k.ofRelation != "" && b.Oracle.relation(k.typ, k.ofRelation) == nil {
			continue
		}
		done[k] = true
		if text := b.listSubjects(q); text != "" {
			return &Failure{Question: q, Text: text}
		}
	}
	return nil
}

// subjectListsMax bounds the lists of subjects of a world: the oracle starts
// anew for each candidate.
const subjectListsMax = 6

func (b *Bench) listSubjects(q Question) string {
	lq := eval.ListSubjectsQuestion{Object: q.Object, Relation: q.Relation,
		SubjectType: q.Subject.Type, SubjectRelation: q.Subject.Relation}
	on := b.binding
	if b.Seed%2 == 1 {
		on = on.Force(eval.ModeBackward) // decides few candidates as it does many
	}
	whole, err := on.ListSubjects(context.Background(), b.graph.View(), lq, &b.env)
	if !b.admissible() {
		if !errors.Is(err, eval.ErrTuple) {
			return fmt.Sprintf("want ErrTuple for a contextual tuple, got %v", err)
		}
		return ""
	}
	switch {
	case err != nil:
		return err.Error()
	case whole.More:
		return "the whole list says that there is more"
	case !slices.IsSortedFunc(whole.IDs, byPosition) || !slices.IsSortedFunc(whole.Excluded, byPosition):
		return fmt.Sprintf("%v without %v is not in order", whole.IDs, whole.Excluded)
	}
	if b.Coverage != nil {
		b.Coverage.Lists++
	}
	for _, s := range b.candidates(q) {
		want := b.table(s).Truth(q.Object, q.Relation)
		got := said(&whole, s)
		switch {
		case got == want:
		case want != expr.True && got != expr.True && (b.World.Model.Options.MissingContextFails || whole.UnknownCount > len(whole.Unknown)):
		case want != expr.False && got != expr.True && whole.Bound != "":
		default:
			return fmt.Sprintf("want %s %s, got %s: %v without %v, wildcard %s, %v unknown, bound %q",
				s, want, got, whole.IDs, whole.Excluded, whole.Wildcard, whole.Unknown, whole.Bound)
		}
	}
	if text := b.namedSubjects(on, lq, &whole, b.candidates(q)); text != "" {
		return text
	}
	return b.subjectPages(lq, &whole)
}

// namedSubjects: where strangers are in, the list by name holds whoever is in
// and stands in a tuple.
func (b *Bench) namedSubjects(on *eval.Binding, lq eval.ListSubjectsQuestion, whole *eval.SubjectList, all []rel.Subject) string {
	lq.Named = true
	named, err := on.ListSubjects(context.Background(), b.graph.View(), lq, &b.env)
	switch {
	case err != nil:
		return "by name: " + err.Error()
	case !slices.IsSortedFunc(named.IDs, byPosition) || len(named.Excluded) > 0:
		return fmt.Sprintf("by name %v without %v", named.IDs, named.Excluded)
	case whole.Wildcard != expr.True:
		if !slices.Equal(named.IDs, whole.IDs) {
			return fmt.Sprintf("by name %v, and %v", named.IDs, whole.IDs)
		}
		return ""
	}
	stands := map[rel.Subject]bool{}
	for _, t := range slices.Concat(b.World.Stored, b.World.Contextual) {
		stands[t.Subject] = !t.Subject.IsWildcard() || b.World.Model.Options.StarIsOrdinary
	}
	for _, s := range all {
		want := said(whole, s) == expr.True && (stands[s] || slices.Contains(whole.IDs, s.ID))
		if whole.Bound == "" && named.Bound == "" && slices.Contains(named.IDs, s.ID) != want {
			return fmt.Sprintf("by name %v, but %s is %v: %v without %v, wildcard %s", named.IDs, s, want, whole.IDs, whole.Excluded, whole.Wildcard)
		}
	}
	return ""
}

// candidates are the subjects of the question's kind: those of which anything
// tells, a stranger, and the wildcard.
func (b *Bench) candidates(q Question) []rel.Subject {
	kind := rel.Subject{Type: q.Subject.Type, Relation: q.Subject.Relation}
	var all []rel.Subject
	add := func(id string) {
		kind.ID = id
		if !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	for _, x := range append(slices.Clone(b.Oracle.objects), q.Object) {
		if x.Type == kind.Type && len(all) < candidatesMax {
			add(x.ID)
		}
	}
	add("stranger")
	if kind.Relation == "" {
		add(rel.Wildcard)
	}
	return all
}

const candidatesMax = 20 // of a wide world

// said is what a list says of a subject.
func said(l *eval.SubjectList, s rel.Subject) expr.Tristate {
	switch {
	case slices.Contains(l.IDs, s.ID):
		return expr.True
	case slices.Contains(l.Unknown, s.ID):
		return expr.Unknown
	case slices.Contains(l.Excluded, s.ID):
		return expr.False
	}
	return l.Wildcard
}

func (b *Bench) subjectPages(lq eval.ListSubjectsQuestion, whole *eval.SubjectList) string {
	var ids, excluded []string
	for lq.Limit = 1 + int(b.Seed%3); ; {
		page, err := b.binding.ListSubjects(context.Background(), b.graph.View(), lq, &b.env)
		if err != nil {
			return "page: " + err.Error()
		}
		ids, excluded = append(ids, page.IDs...), append(excluded, page.Excluded...)
		if page.Wildcard != whole.Wildcard {
			return fmt.Sprintf("wildcard %s, on a page %s", whole.Wildcard, page.Wildcard)
		}
		if !page.More {
			break
		}
		if n := len(page.IDs) + len(page.Excluded); n != lq.Limit {
			return fmt.Sprintf("a page of %d says that there is more, and holds %d", lq.Limit, n)
		}
		lq.After = page.Next
	}
	if !slices.Equal(ids, whole.IDs) || !slices.Equal(excluded, whole.Excluded) {
		return fmt.Sprintf("%v without %v, by pages of %d %v without %v", whole.IDs, whole.Excluded, lq.Limit, ids, excluded)
	}
	return ""
}
