package storetest

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Report is the result of a file's tests.
type Report struct {
	// Name is [File].Name.
	Name string
	// Tests has one report for each test, in their order.
	Tests []TestReport
}

// Passed reports whether every test passed.
func (r *Report) Passed() bool {
	return !slices.ContainsFunc(r.Tests, func(t TestReport) bool { return len(t.Failures) > 0 })
}

// TestReport is the result of one test.
type TestReport struct {
	// Name and Description are those of the [Test].
	Name, Description string
	// Checks, ListObjects and ListUsers count the questions of each kind.
	Checks, ListObjects, ListUsers int
	// Failures are the questions with an unexpected result, in their order.
	Failures []Failure
}

// Asked returns how many questions the test asked.
func (t *TestReport) Asked() int { return t.Checks + t.ListObjects + t.ListUsers }

// Failure is a question with an unexpected result.
type Failure struct {
	// Question is, for example, "check user:anne viewer document:1".
	Question string
	// Want and Got are the expected and the actual result, as text. Got may be an
	// error.
	Want, Got string
}

// Run asks every question of a file. Each test runs in a new store of the engine,
// which Run deletes afterwards. fsys is the folder of the file. Run fails if the
// model or a tuple is wrong; a question with an unexpected result is in the
// report.
//
// An unknown result (because of missing context, an error of a condition, or a
// bound) is a failure, since it is an error in OpenFGA. A result that is unknown
// because of a cycle through an exclusion counts as denied.
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
	if len(f.Tests) == 0 { // check the model and the tuples
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

// running is a test that runs.
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
		if e := e.DeleteStore(context.WithoutCancel(ctx), s.ID()); err == nil {
			err = e
		}
	}()
	if _, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: model}); err != nil {
		return nil, err
	}
	each := func(yield func(rel.Tuple, error) bool) {
		for _, t := range tuples {
			if !yield(t, nil) {
				return
			}
		}
	}
	if _, err := s.Import(ctx, each, authz.ImportOptions{OnDuplicate: authz.Ignore}); err != nil {
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
				got, err := r.store.Check(r.ctx, authz.CheckRequest{Object: object, Relation: a.Relation, Subject: user,
					QueryOptions: authz.QueryOptions{Context: c.Context}})
				want := fmt.Sprint(a.Want)
				switch {
				case err != nil:
					r.fail(question, want, errorText(err))
				case failsInOpenFGA(got.Reasons):
					r.fail(question, want, "error: "+got.Reasons.String())
				case got.Allowed() != a.Want:
					r.fail(question, want, got.Allowed())
				}
			}
		}
	}
}

// failsInOpenFGA reports whether OpenFGA returns an error where a result is
// unknown for these reasons.
func failsInOpenFGA(why *authz.Reasons) bool { return why != nil && !why.Cycle }

func (r *running) listObjects(l *ListObjects) {
	for _, a := range l.Assertions {
		r.out.ListObjects++
		question := fmt.Sprintf("list objects %s %s %s", l.User, a.Relation, l.Type)
		request := authz.ListObjectsRequest{Type: l.Type, Relation: a.Relation, Subject: l.User, QueryOptions: authz.QueryOptions{Context: l.Context}}
		var got []string
		for {
			page, err := r.store.ListObjects(r.ctx, request)
			if err != nil || page.Bound != "" || failsInOpenFGA(page.Reasons) {
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

// errorText returns an error's text without the store's id, which differs in each
// run.
func errorText(err error) string { return "error: " + authz.Reason(err) }

// cause returns the text of an error, of a bound that cut a list, or of reasons.
func cause(err error, bound string, why *authz.Reasons) string {
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
		request := authz.ListSubjectsRequest{Object: l.Object, Relation: a.Relation, SubjectType: l.Type, SubjectRelation: l.Relation,
			QueryOptions: authz.QueryOptions{Context: l.Context}}
		var got []string
		for {
			page, err := r.store.ListSubjects(r.ctx, request)
			if err != nil || page.Bound != "" || failsInOpenFGA(page.Reasons) {
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

// compare compares two lists as sets: lists have no order.
func (r *running) compare(question string, want, got []string) {
	w, g := slices.Compact(slices.Sorted(slices.Values(want))), slices.Sorted(slices.Values(got))
	if !slices.Equal(w, g) {
		r.fail(question, list(w), list(g))
	}
}

func list(names []string) string { return "[" + strings.Join(names, " ") + "]" }
