package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/rel"
)

// listObjectsLaw: the list of objects contains exactly the objects for which
// the check is true, whether it is read at once or in pages.
func listObjectsLaw(b *Bench) *Failure {
	type listKey struct {
		subject       rel.Subject
		typ, relation string
	}
	done := map[listKey]bool{}
	for _, q := range b.Questions {
		k := listKey{q.Subject, q.Object.Type, q.Relation}
		if done[k] {
			continue
		}
		done[k] = true
		if text := b.compareObjectList(q); text != "" {
			return &Failure{Question: q, Text: text}
		}
	}
	return nil
}

func (b *Bench) compareObjectList(q Question) string {
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
	for _, x := range b.Oracle.listable(q) {
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
	sortByPosition(want)
	sortByPosition(unknown)
	optional := b.Oracle.optionalID(q)
	if optional != "" && (slices.Contains(whole.IDs, optional) || slices.Contains(whole.Unknown, optional)) {
		return ""
	}
	count := whole.UnknownCount
	if optional != "" && count == len(unknown)+1 && count > authz.UnknownMax {
		count-- // the optional object is counted but not named
	}
	switch {
	case whole.More:
		return "the list without a limit has More set"
	case whole.Bound != "":
		return b.compareCutList(whole, want, unknown)
	case !slices.Equal(whole.IDs, want):
		return fmt.Sprintf("want %v, got %v", want, whole.IDs)
	case !b.World.Model.Options.MissingContextFails &&
		(!slices.Equal(whole.Unknown, unknown[:min(len(unknown), authz.UnknownMax)]) || count != len(unknown)):
		return fmt.Sprintf("want %v unknown, got %v (%d)", unknown, whole.Unknown, whole.UnknownCount)
	}
	if b.World.Model.Options.MissingContextFails {
		unknown = nil
	}
	return b.comparePages(lq, want, unknown)
}

// compareCutList: a list that a bound cut short contains only objects for which
// the check is true.
func (b *Bench) compareCutList(l eval.ObjectList, want, unknown []string) string {
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

// comparePages reads a list in small pages. With UnknownPerPage, each page
// names the unknown objects of its part of the list.
func (b *Bench) comparePages(lq eval.ListObjectsQuestion, want, unknown []string) string {
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
			return fmt.Sprintf("a page with limit %d has More set but %d entries", lq.Limit, len(page.IDs))
		}
		lq.After = page.Next
	}
	if !slices.Equal(got, want) {
		return fmt.Sprintf("want %v, got %v in pages of %d", want, got, lq.Limit)
	}
	slices.Sort(open)
	if len(unknown) > authz.UnknownMax { // pages name at most that many
		return ""
	}
	for _, id := range unknown {
		if _, found := slices.BinarySearch(open, id); !found {
			return fmt.Sprintf("%s is unknown, but is on no page of %d", id, lq.Limit)
		}
	}
	return ""
}

// listable returns the objects that a list may contain: every object that a
// tuple or an attribute mentions. If the question's subject is a userset of the
// same relation, the list may also contain the object of the userset, since a
// userset is a member of itself.
func (o *Oracle) listable(q Question) []rel.Object {
	all := slices.Clone(o.objects)
	own := q.Subject.Object()
	if !o.mentioned[own] && q.Subject.Relation == q.Relation && own.Type == q.Object.Type {
		all = append(all, own)
	}
	return all
}

// optionalID returns the id of the subject's own object if nothing mentions it
// and the subject is not the userset that the question is about; otherwise "".
// A list may, but need not, contain this object.
func (o *Oracle) optionalID(q Question) string {
	own := q.Subject.Object()
	if o.mentioned[own] || own.Type != q.Object.Type || q.Subject.Relation == q.Relation {
		return ""
	}
	return own.ID
}

// sortByPosition sorts ids in the order of lists.
func sortByPosition(ids []string) {
	slices.SortFunc(ids, byPosition)
}

func byPosition(a, b string) int { return eval.PositionOf(a).Compare(eval.PositionOf(b)) }

// listSubjectsLaw: the list of subjects agrees with the check of each subject,
// whether it is read at once or in pages.
func listSubjectsLaw(b *Bench) *Failure {
	type listKey struct {
		object                    rel.Object
		relation, typ, ofRelation string
	}
	done := map[listKey]bool{}
	for _, q := range b.Questions {
		k := listKey{q.Object, q.Relation, q.Subject.Type, q.Subject.Relation}
		if done[k] || len(done) == subjectListsMax || b.Oracle.types[k.typ] == nil ||
			k.ofRelation != "" && b.Oracle.relation(k.typ, k.ofRelation) == nil {
			continue
		}
		done[k] = true
		if text := b.compareSubjectList(q); text != "" {
			return &Failure{Question: q, Text: text}
		}
	}
	return nil
}

// subjectListsMax bounds the lists of subjects in a world. The oracle starts
// over for each candidate.
const subjectListsMax = 6

func (b *Bench) compareSubjectList(q Question) string {
	lq := eval.ListSubjectsQuestion{Object: q.Object, Relation: q.Relation,
		SubjectType: q.Subject.Type, SubjectRelation: q.Subject.Relation}
	on := b.binding
	if b.Seed%2 == 1 {
		on = on.Force(eval.ModeBackward) // decides few candidates in the way otherwise used for many
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
		return "the list without a limit has More set"
	case !slices.IsSortedFunc(whole.IDs, byPosition) || !slices.IsSortedFunc(whole.Excluded, byPosition):
		return fmt.Sprintf("%v without %v is not in order", whole.IDs, whole.Excluded)
	}
	if b.Coverage != nil {
		b.Coverage.Lists++
	}
	for _, s := range b.candidates(q) {
		want := b.table(s).Truth(q.Object, q.Relation)
		got := decisionFor(&whole, s)
		switch {
		case got == want:
		case want != expr.True && got != expr.True && (b.World.Model.Options.MissingContextFails || whole.UnknownCount > len(whole.Unknown)):
		case want != expr.False && got != expr.True && whole.Bound != "":
		default:
			return fmt.Sprintf("want %s %s, got %s: %v without %v, wildcard %s, %v unknown, bound %q",
				s, want, got, whole.IDs, whole.Excluded, whole.Wildcard, whole.Unknown, whole.Bound)
		}
	}
	if text := b.compareNamedList(on, lq, &whole, b.candidates(q)); text != "" {
		return text
	}
	return b.compareSubjectPages(lq, &whole)
}

// compareNamedList: if the wildcard is a member, the list by name contains
// every member that a tuple names as a subject.
func (b *Bench) compareNamedList(on *eval.Binding, lq eval.ListSubjectsQuestion, whole *eval.SubjectList, all []rel.Subject) string {
	lq.Named = true
	named, err := on.ListSubjects(context.Background(), b.graph.View(), lq, &b.env)
	switch {
	case err != nil:
		return "by name: " + err.Error()
	case !slices.IsSortedFunc(named.IDs, byPosition) || len(named.Excluded) > 0:
		return fmt.Sprintf("by name %v without %v", named.IDs, named.Excluded)
	case whole.Wildcard != expr.True:
		if !slices.Equal(named.IDs, whole.IDs) {
			return fmt.Sprintf("by name %v, otherwise %v", named.IDs, whole.IDs)
		}
		return ""
	}
	stands := map[rel.Subject]bool{}
	for _, t := range slices.Concat(b.World.Stored, b.World.Contextual) {
		stands[t.Subject] = !t.Subject.IsWildcard() || b.World.Model.Options.StarIsOrdinary
	}
	for _, s := range all {
		want := decisionFor(whole, s) == expr.True && (stands[s] || slices.Contains(whole.IDs, s.ID))
		if whole.Bound == "" && named.Bound == "" && slices.Contains(named.IDs, s.ID) != want {
			return fmt.Sprintf("by name %v, but %s is %v: %v without %v, wildcard %s", named.IDs, s, want, whole.IDs, whole.Excluded, whole.Wildcard)
		}
	}
	return ""
}

// candidates returns subjects of the question's kind: those that the world
// mentions, a stranger, and the wildcard.
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

const candidatesMax = 20 // enough for a wide world

// decisionFor returns whether s is a member according to a list.
func decisionFor(l *eval.SubjectList, s rel.Subject) expr.Tristate {
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

func (b *Bench) compareSubjectPages(lq eval.ListSubjectsQuestion, whole *eval.SubjectList) string {
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
			return fmt.Sprintf("a page with limit %d has More set but %d entries", lq.Limit, n)
		}
		lq.After = page.Next
	}
	if !slices.Equal(ids, whole.IDs) || !slices.Equal(excluded, whole.Excluded) {
		return fmt.Sprintf("%v without %v, in pages of %d %v without %v", whole.IDs, whole.Excluded, lq.Limit, ids, excluded)
	}
	return ""
}
