package storetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Report is what a file's tests gave.
type Report struct {
	Name  string
	Tests []TestReport
}

// Passed says whether every test passed.
func (r *Report) Passed() bool {
	return !slices.ContainsFunc(r.Tests, func(t TestReport) bool { return len(t.Failures) > 0 })
}

// TestReport is what one test gave.
type TestReport struct {
	Name, Description string
	// Asked counts the questions: checks, list objects and list users.
	Checks, ListObjects, ListUsers int
	Failures                       []Failure
}

// Asked is how many questions the test asked.
func (t *TestReport) Asked() int { return t.Checks + t.ListObjects + t.ListUsers }

// Failure is an answer that is not the one wanted.
type Failure struct {
	// Question is, for example, "check user:anne viewer document:1".
	Question, Want, Got string
}

// Run asks every question of a file, each test in a store of its own on the
// engine, which is deleted afterwards. fsys is the file's folder. The error is
// of the file: a model or a tuple that is wrong; a question that fails is in
// the report.
//
// What stays undecided for lack of context, by an error of a condition or at a
// bound, is a failure, as it is an error in OpenFGA; a cycle through exclusion
// is no.
func Run(ctx context.Context, e *ostiary.Engine, f *File, fsys fs.FS) (*Report, error) {
	model, _, err := f.ReadModel(fsys)
	if err != nil {
		return nil, err
	}
	more, err := ReadTuples(fsys, f.TupleFiles)
	if err != nil {
		return nil, err
	}
	base := slices.Concat(f.Tuples, more)
	report := &Report{Name: f.Name}
	if len(f.Tests) == 0 { // the model and the tuples are to be right all the same
		_, err := runTest(ctx, e, model, base, &Test{})
		return report, err
	}
	for i := range f.Tests {
		t := &f.Tests[i]
		more, err := ReadTuples(fsys, t.TupleFiles)
		if err != nil {
			return nil, err
		}
		got, err := runTest(ctx, e, model, slices.Concat(base, t.Tuples, more), t)
		if err != nil {
			return nil, fmt.Errorf("test %q: %w", t.Name, err)
		}
		report.Tests = append(report.Tests, *got)
	}
	return report, nil
}

// running is one test.
type running struct {
	ctx   context.Context
	store *ostiary.Store
	out   *TestReport
}

func runTest(ctx context.Context, e *ostiary.Engine, model *schema.Model, tuples []rel.Tuple, t *Test) (_ *TestReport, err error) {
	s, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "store test"})
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := e.DeleteStore(ctx, s.ID()); err == nil {
			err = e
		}
	}()
	if _, _, err := s.WriteSchema(ctx, ostiary.SchemaSource{Model: model}); err != nil {
		return nil, err
	}
	each := func(yield func(rel.Tuple, error) bool) {
		for _, t := range tuples {
			if !yield(t, nil) {
				return
			}
		}
	}
	if _, err := s.Import(ctx, each, ostiary.ImportOptions{OnDuplicate: ostiary.Ignore}); err != nil {
		return nil, err
	}
	r := running{ctx, s, &TestReport{Name: t.Name, Description: t.Description}}
	for i := range t.Checks {
		r.check(&t.Checks[i])
	}
	for i := range t.ListObjects {
		r.listObjects(&t.ListObjects[i])
	}
	for i := range t.ListUsers {
		r.listUsers(&t.ListUsers[i])
	}
	return r.out, ctx.Err()
}

func (r *running) fail(question, want string, got any) {
	r.out.Failures = append(r.out.Failures, Failure{question, want, fmt.Sprint(got)})
}

func (r *running) check(c *Check) {
	for _, user := range c.Users {
		for _, object := range c.Objects {
			for _, a := range c.Assertions {
				r.out.Checks++
				question := fmt.Sprintf("check %s %s %s", user, a.Relation, object)
				got, err := r.store.Check(r.ctx, ostiary.CheckRequest{Object: object, Relation: a.Relation, Subject: user,
					QueryOptions: ostiary.QueryOptions{Context: c.Context}})
				want := fmt.Sprint(a.Want)
				switch {
				case err != nil:
					r.fail(question, want, errorText(err))
				case fails(got.Reasons):
					r.fail(question, want, "error: "+got.Reasons.String())
				case got.Allowed() != a.Want:
					r.fail(question, want, got.Allowed())
				}
			}
		}
	}
}

// fails says whether OpenFGA has an error where the answer is unknown for
// these reasons.
func fails(why *eval.Reasons) bool { return why != nil && !why.Cycle }

func (r *running) listObjects(l *ListObjects) {
	for _, a := range l.Assertions {
		r.out.ListObjects++
		question := fmt.Sprintf("list objects %s %s %s", l.User, a.Relation, l.Type)
		request := ostiary.ListObjectsRequest{Type: l.Type, Relation: a.Relation, Subject: l.User, QueryOptions: ostiary.QueryOptions{Context: l.Context}}
		var got []string
		for {
			page, err := r.store.ListObjects(r.ctx, request)
			if err != nil || page.Bound != "" || fails(page.Reasons) {
				r.fail(question, list(a.Want), cause(err, page.Bound, page.Reasons))
				break
			}
			for _, id := range page.IDs {
				got = append(got, l.Type+":"+id)
			}
			if request.Cursor = page.Next; page.Next == "" {
				r.compare(question, a.Want, got)
				break
			}
		}
	}
}

// errorText leaves out the store, whose id nobody knows.
func errorText(err error) string {
	var e *ostiary.Error
	if errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	return "error: " + err.Error()
}

func cause(err error, bound string, why *eval.Reasons) string {
	switch {
	case err != nil:
		return errorText(err)
	case bound != "":
		return "error: bound reached: " + bound
	}
	return "error: " + why.String()
}

func (r *running) listUsers(l *ListUsers) {
	for _, a := range l.Assertions {
		r.out.ListUsers++
		filter := l.Type
		if l.Relation != "" {
			filter += "#" + l.Relation
		}
		question := fmt.Sprintf("list users %s %s %s", l.Object, a.Relation, filter)
		request := ostiary.ListSubjectsRequest{Object: l.Object, Relation: a.Relation, SubjectType: l.Type, SubjectRelation: l.Relation,
			QueryOptions: ostiary.QueryOptions{Context: l.Context}}
		var got []string
		for {
			page, err := r.store.ListSubjects(r.ctx, request)
			if err != nil || page.Bound != "" || fails(page.Reasons) {
				r.fail(question, list(a.Want), cause(err, page.Bound, page.Reasons))
				break
			}
			for _, id := range page.IDs {
				got = append(got, rel.Subject{Type: l.Type, ID: id, Relation: l.Relation}.String())
			}
			if request.Cursor = page.Next; page.Next == "" {
				if page.Wildcard == expr.True && l.Relation == "" {
					got = append(got, l.Type+":*")
				}
				r.compare(question, a.Want, got)
				break
			}
		}
	}
}

// compare holds sets against each other: no order is promised.
func (r *running) compare(question string, want, got []string) {
	w, g := slices.Compact(slices.Sorted(slices.Values(want))), slices.Sorted(slices.Values(got))
	if !slices.Equal(w, g) {
		r.fail(question, list(w), list(g))
	}
}

func list(names []string) string { return "[" + strings.Join(names, " ") + "]" }
