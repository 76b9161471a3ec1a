package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/door/permify/basev1"
)

// DepthMax is the largest depth that a file may ask for. An engine that runs
// files needs Bounds.Depth of at least this.
const DepthMax = 1000

// Answer is one assertion and what was answered.
type Answer struct {
	// Scenario is its scenario's number, from 1, and Name that one's name.
	Scenario int
	Name     string
	// Question is the question in a line.
	Question  string
	Want, Got string
}

// Passed says whether the answer is the one that is wanted.
func (a *Answer) Passed() bool { return a.Want == a.Got }

// Report says how a file was answered.
type Report struct {
	// Problems are what is wrong with the schema and the data. With any, nothing
	// was asked.
	Problems []string
	Answers  []Answer
}

// Passed says whether nothing was wrong.
func (r *Report) Passed() bool {
	return len(r.Problems) == 0 && !slices.ContainsFunc(r.Answers, func(a Answer) bool { return !a.Passed() })
}

// calls are the protocol's services, in process.
type calls struct {
	permission basev1.PermissionServer
	schema     basev1.SchemaServer
	data       basev1.DataServer
}

const tenant = permify.DefaultTenant

func connect(e *ostiary.Engine) (c calls, err error) {
	d, err := permify.New(e, permify.Options{})
	if err != nil {
		return c, err
	}
	for _, s := range d.Services {
		switch impl := s.Impl.(type) {
		case basev1.PermissionServer:
			c.permission = impl
		case basev1.SchemaServer:
			c.schema = impl
		case basev1.DataServer:
			c.data = impl
		}
	}
	if c.permission == nil || c.schema == nil || c.data == nil {
		return c, errors.New("the protocol's services are not there")
	}
	return c, nil
}

// Run loads a file into an engine, which must be fresh, and asks its questions.
// schema is the schema's text, wherever it came from. What is wrong with the
// file is in the report; an error is the context's, or the engine's.
func Run(ctx context.Context, e *ostiary.Engine, f *File, schema string) (*Report, error) {
	c, err := connect(e)
	if err != nil {
		return nil, err
	}
	r := &run{calls: c, ctx: ctx, report: &Report{}}
	r.load(f, schema)
	if len(r.report.Problems) > 0 {
		return r.report, ctx.Err()
	}
	for i := range f.Scenarios {
		r.scenario(i+1, &f.Scenarios[i])
	}
	return r.report, ctx.Err()
}

// run is a file under way.
type run struct {
	calls
	ctx    context.Context
	report *Report
	// at is the scenario being asked.
	at     int
	called string
}

func (r *run) problem(format string, args ...any) {
	r.report.Problems = append(r.report.Problems, fmt.Sprintf(format, args...))
}

// load writes the schema and the data. Each line is written for itself, so that
// each problem is told.
func (r *run) load(f *File, schema string) {
	if _, err := r.schema.Write(r.ctx, &basev1.SchemaWriteRequest{TenantId: tenant, Schema: schema}); err != nil {
		r.problem("schema: %v", err)
		return
	}
	for _, line := range f.Relationships {
		t, err := tuple(line)
		if err == nil {
			_, err = r.data.Write(r.ctx, &basev1.DataWriteRequest{TenantId: tenant, Metadata: &basev1.DataWriteRequestMetadata{}, Tuples: []*basev1.Tuple{t}})
		}
		if err != nil {
			r.problem("relationship %s: %v", line, err)
		}
	}
	for _, line := range f.Attributes {
		a, err := permify.ParseAttributeMessage(line)
		if err == nil {
			_, err = r.data.Write(r.ctx, &basev1.DataWriteRequest{TenantId: tenant, Metadata: &basev1.DataWriteRequestMetadata{}, Attributes: []*basev1.Attribute{a}})
		}
		if err != nil {
			r.problem("attribute %s: %v", line, err)
		}
	}
}

func tuple(line string) (*basev1.Tuple, error) {
	t, err := permify.ParseTuple(line)
	if err != nil {
		return nil, err
	}
	return &basev1.Tuple{Entity: &basev1.Entity{Type: t.Object.Type, Id: t.Object.ID}, Relation: t.Relation,
		Subject: &basev1.Subject{Type: t.Subject.Type, Id: t.Subject.ID, Relation: t.Subject.Relation}}, nil
}

func entity(s string) *basev1.Entity {
	typ, id, _ := strings.Cut(s, ":")
	return &basev1.Entity{Type: typ, Id: id}
}

func subject(s string) *basev1.Subject {
	s, relation, _ := strings.Cut(s, "#")
	typ, id, _ := strings.Cut(s, ":")
	return &basev1.Subject{Type: typ, Id: id, Relation: relation}
}

func (c *Context) message() (*basev1.Context, error) {
	m := &basev1.Context{}
	for _, line := range c.Tuples {
		t, err := tuple(line)
		if err != nil {
			return nil, err
		}
		m.Tuples = append(m.Tuples, t)
	}
	for _, line := range c.Attributes {
		a, err := permify.ParseAttributeMessage(line)
		if err != nil {
			return nil, err
		}
		m.Attributes = append(m.Attributes, a)
	}
	var err error
	m.Data, err = structpb.NewStruct(c.Data)
	return m, err
}

// depthOf is a question's depth; one below the protocol's least is refused
// where it is asked.
func depthOf(asked *int32) int32 {
	if asked == nil {
		return DepthDefault
	}
	return *asked
}

// ask notes one assertion. get answers it, or says why it cannot.
func (r *run) ask(question, want string, get func() (string, error)) {
	got, err := get()
	if err != nil {
		got = "error: " + err.Error()
	}
	r.report.Answers = append(r.report.Answers, Answer{r.at, r.called, question, want, got})
}

func (r *run) scenario(number int, s *Scenario) {
	r.at, r.called = number, s.Name
	for i := range s.Checks {
		r.checks(&s.Checks[i])
	}
	for i := range s.EntityFilters {
		r.entities(&s.EntityFilters[i])
	}
	for i := range s.SubjectFilters {
		r.subjects(&s.SubjectFilters[i])
	}
}

func (r *run) checks(c *Check) {
	context, bad := c.Context.message()
	for _, permission := range slices.Sorted(maps.Keys(c.Assertions)) {
		r.ask(fmt.Sprintf("check %s %s %s", c.Entity, permission, c.Subject), decision(c.Assertions[permission]), func() (string, error) {
			if bad != nil {
				return "", bad
			}
			out, err := r.permission.Check(r.ctx, &basev1.PermissionCheckRequest{TenantId: tenant,
				Metadata: &basev1.PermissionCheckRequestMetadata{Depth: depthOf(c.Depth)},
				Entity:   entity(c.Entity), Permission: permission, Subject: subject(c.Subject), Context: context})
			return decision(out.GetCan() == basev1.CheckResult_CHECK_RESULT_ALLOWED), err
		})
	}
}

func decision(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

func (r *run) entities(f *EntityFilter) {
	context, bad := f.Context.message()
	for _, permission := range slices.Sorted(maps.Keys(f.Assertions)) {
		r.ask(fmt.Sprintf("entities %s %s %s", f.EntityType, permission, f.Subject), set(f.Assertions[permission]), func() (string, error) {
			if bad != nil {
				return "", bad
			}
			in := &basev1.PermissionLookupEntityRequest{TenantId: tenant,
				Metadata:   &basev1.PermissionLookupEntityRequestMetadata{Depth: depthOf(f.Depth)},
				EntityType: f.EntityType, Permission: permission, Subject: subject(f.Subject), Context: context, PageSize: permify.PageMax}
			return pages(func(token string) ([]string, string, error) {
				in.ContinuousToken = token
				out, err := r.permission.LookupEntity(r.ctx, in)
				return out.GetEntityIds(), out.GetContinuousToken(), err
			})
		})
	}
}

func (r *run) subjects(f *SubjectFilter) {
	context, bad := f.Context.message()
	typ, relation, _ := strings.Cut(f.SubjectReference, "#")
	for _, permission := range slices.Sorted(maps.Keys(f.Assertions)) {
		r.ask(fmt.Sprintf("subjects %s %s %s", f.Entity, permission, f.SubjectReference), set(f.Assertions[permission]), func() (string, error) {
			if bad != nil {
				return "", bad
			}
			in := &basev1.PermissionLookupSubjectRequest{TenantId: tenant,
				Metadata: &basev1.PermissionLookupSubjectRequestMetadata{Depth: depthOf(f.Depth)},
				Entity:   entity(f.Entity), Permission: permission, Context: context, PageSize: permify.PageMax,
				SubjectReference: &basev1.RelationReference{Type: typ, Relation: relation}}
			return pages(func(token string) ([]string, string, error) {
				in.ContinuousToken = token
				out, err := r.permission.LookupSubject(r.ctx, in)
				return out.GetSubjectIds(), out.GetContinuousToken(), err
			})
		})
	}
}

// pages reads all of a list.
func pages(next func(token string) (ids []string, more string, err error)) (string, error) {
	var all []string
	for token := ""; ; {
		ids, more, err := next(token)
		if err != nil {
			return "", err
		}
		all = append(all, ids...)
		if token = more; token == "" {
			return set(all), nil
		}
	}
}

// set prints ids as a set.
func set(ids []string) string {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	return "[" + strings.Join(ids, ", ") + "]"
}
