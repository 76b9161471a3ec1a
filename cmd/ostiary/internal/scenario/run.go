package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/internal/permifypb"
)

// DepthMax is the largest depth that a file may set. The engine that runs files
// needs Bounds.Depth of at least DepthMax.
const DepthMax = 1000

// Answer is the outcome of one assertion.
type Answer struct {
	// Scenario is the number of the assertion's scenario, from 1, and Name that
	// scenario's name.
	Scenario int
	Name     string
	// Question describes the request in one line.
	Question string
	// Want is the expected result, and Got the actual one or an error.
	Want, Got string
}

// Passed reports whether the result is the expected one.
func (a *Answer) Passed() bool { return a.Want == a.Got }

// Report is the outcome of a file.
type Report struct {
	// Problems are the errors in the schema and the data. If there are any, no
	// scenario runs.
	Problems []string
	// Answers are the outcomes of all assertions, in order.
	Answers []Answer
}

// Passed reports whether there are no problems and all assertions passed.
func (r *Report) Passed() bool {
	return len(r.Problems) == 0 && !slices.ContainsFunc(r.Answers, func(a Answer) bool { return !a.Passed() })
}

// services are the protocol's services, in the same process.
type services struct {
	permission permifypb.PermissionServer
	schema     permifypb.SchemaServer
	data       permifypb.DataServer
}

// tenant is the tenant that every file uses.
const tenant = permify.DefaultTenant

// connect returns the services of a door to an engine.
func connect(e *ostiary.Engine) (c services, err error) {
	d, err := permify.New(e, permify.Options{})
	if err != nil {
		return c, err
	}
	for _, s := range d.Services {
		switch impl := s.Impl.(type) {
		case permifypb.PermissionServer:
			c.permission = impl
		case permifypb.SchemaServer:
			c.schema = impl
		case permifypb.DataServer:
			c.data = impl
		}
	}
	return c, nil
}

// Run loads a file into an engine, which must be empty, and runs its scenarios.
// schema is the text of the schema. Mistakes in the file and requests that fail are in
// the report. Run returns an error if the context ends.
func Run(ctx context.Context, e *ostiary.Engine, f *File, schema string) (*Report, error) {
	c, err := connect(e)
	if err != nil {
		return nil, err
	}
	r := &run{services: c, ctx: ctx, report: &Report{}}
	r.load(f, schema)
	if len(r.report.Problems) > 0 {
		return r.report, ctx.Err()
	}
	for i := range f.Scenarios {
		r.scenario(i+1, &f.Scenarios[i])
	}
	return r.report, ctx.Err()
}

// run is the state of Run.
type run struct {
	services
	ctx    context.Context
	report *Report
	// number and name identify the current scenario.
	number int
	name   string
}

// problem adds a problem to the report.
func (r *run) problem(format string, args ...any) {
	r.report.Problems = append(r.report.Problems, fmt.Sprintf(format, args...))
}

// load writes the schema and the data. It writes each line separately, to
// report every invalid line.
func (r *run) load(f *File, schema string) {
	if _, err := r.schema.Write(r.ctx, &permifypb.SchemaWriteRequest{TenantId: tenant, Schema: schema}); err != nil {
		r.schemaProblems(schema, err)
		return
	}
	for _, line := range f.Relationships {
		t, err := tuple(line)
		if err == nil {
			_, err = r.data.Write(r.ctx, &permifypb.DataWriteRequest{TenantId: tenant, Metadata: &permifypb.DataWriteRequestMetadata{}, Tuples: []*permifypb.Tuple{t}})
		}
		if err != nil {
			r.problem("relationship %s: %v", line, err)
		}
	}
	for _, line := range f.Attributes {
		a, err := permify.ParseAttributeMessage(line)
		if err == nil {
			_, err = r.data.Write(r.ctx, &permifypb.DataWriteRequest{TenantId: tenant, Metadata: &permifypb.DataWriteRequestMetadata{}, Attributes: []*permifypb.Attribute{a}})
		}
		if err != nil {
			r.problem("attribute %s: %v", line, err)
		}
	}
}

// schemaProblems reports every mistake in a schema that was refused with err.
func (r *run) schemaProblems(schema string, err error) {
	parsed, parseErr := language.Parse(schema)
	if parseErr != nil {
		r.problem("schema: %v", err)
		return
	}
	mistakes := parsed.Mistakes()
	for _, m := range mistakes {
		r.problem("schema: %v", m)
	}
	if len(mistakes) == 0 {
		r.problem("schema: %v", err) // it is in the expression of a rule
	}
}

// tuple parses a line into the protocol's message.
func tuple(line string) (*permifypb.Tuple, error) {
	t, err := permify.ParseTuple(line)
	if err != nil {
		return nil, err
	}
	return &permifypb.Tuple{Entity: &permifypb.Entity{Type: t.Object.Type, Id: t.Object.ID}, Relation: t.Relation,
		Subject: &permifypb.Subject{Type: t.Subject.Type, Id: t.Subject.ID, Relation: t.Subject.Relation}}, nil
}

// entity parses "type:id".
func entity(s string) *permifypb.Entity {
	typ, id, _ := strings.Cut(s, ":")
	return &permifypb.Entity{Type: typ, Id: id}
}

// subject parses "type:id" or "type:id#relation".
func subject(s string) *permifypb.Subject {
	s, relation, _ := strings.Cut(s, "#")
	typ, id, _ := strings.Cut(s, ":")
	return &permifypb.Subject{Type: typ, Id: id, Relation: relation}
}

// message translates the context.
func (c *Context) message() (*permifypb.Context, error) {
	m := &permifypb.Context{}
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

// depthOf returns the depth of a request. The request itself fails if the depth
// is too small.
func depthOf(depth *int32) int32 {
	if depth == nil {
		return DepthDefault
	}
	return *depth
}

// record adds the outcome of one assertion to the report. get returns the
// actual result.
func (r *run) record(question, want string, get func() (string, error)) {
	got, err := get()
	if err != nil {
		got = "error: " + err.Error()
	}
	r.report.Answers = append(r.report.Answers, Answer{r.number, r.name, question, want, got})
}

// scenario runs one scenario.
func (r *run) scenario(number int, s *Scenario) {
	r.number, r.name = number, s.Name
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

// checks runs the assertions of a check.
func (r *run) checks(c *Check) {
	context, contextErr := c.Context.message()
	for _, permission := range slices.Sorted(maps.Keys(c.Assertions)) {
		r.record(fmt.Sprintf("check %s %s %s", c.Entity, permission, c.Subject), decision(c.Assertions[permission]), func() (string, error) {
			if contextErr != nil {
				return "", contextErr
			}
			out, err := r.permission.Check(r.ctx, &permifypb.PermissionCheckRequest{TenantId: tenant,
				Metadata: &permifypb.PermissionCheckRequestMetadata{Depth: depthOf(c.Depth)},
				Entity:   entity(c.Entity), Permission: permission, Subject: subject(c.Subject), Context: context})
			return decision(out.GetCan() == permifypb.CheckResult_CHECK_RESULT_ALLOWED), err
		})
	}
}

// decision formats the result of a check.
func decision(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// entities runs the assertions of a lookup of entities.
func (r *run) entities(f *EntityFilter) {
	context, contextErr := f.Context.message()
	for _, permission := range slices.Sorted(maps.Keys(f.Assertions)) {
		r.record(fmt.Sprintf("entities %s %s %s", f.EntityType, permission, f.Subject), set(f.Assertions[permission]), func() (string, error) {
			if contextErr != nil {
				return "", contextErr
			}
			in := &permifypb.PermissionLookupEntityRequest{TenantId: tenant,
				Metadata:   &permifypb.PermissionLookupEntityRequestMetadata{Depth: depthOf(f.Depth)},
				EntityType: f.EntityType, Permission: permission, Subject: subject(f.Subject), Context: context, PageSize: permify.PageMax}
			return allPages(func(token string) ([]string, string, error) {
				in.ContinuousToken = token
				out, err := r.permission.LookupEntity(r.ctx, in)
				return out.GetEntityIds(), out.GetContinuousToken(), err
			})
		})
	}
}

// subjects runs the assertions of a lookup of subjects.
func (r *run) subjects(f *SubjectFilter) {
	context, contextErr := f.Context.message()
	typ, relation, _ := strings.Cut(f.SubjectReference, "#")
	for _, permission := range slices.Sorted(maps.Keys(f.Assertions)) {
		r.record(fmt.Sprintf("subjects %s %s %s", f.Entity, permission, f.SubjectReference), set(f.Assertions[permission]), func() (string, error) {
			if contextErr != nil {
				return "", contextErr
			}
			in := &permifypb.PermissionLookupSubjectRequest{TenantId: tenant,
				Metadata: &permifypb.PermissionLookupSubjectRequestMetadata{Depth: depthOf(f.Depth)},
				Entity:   entity(f.Entity), Permission: permission, Context: context, PageSize: permify.PageMax,
				SubjectReference: &permifypb.RelationReference{Type: typ, Relation: relation}}
			return allPages(func(token string) ([]string, string, error) {
				in.ContinuousToken = token
				out, err := r.permission.LookupSubject(r.ctx, in)
				return out.GetSubjectIds(), out.GetContinuousToken(), err
			})
		})
	}
}

// allPages reads all pages of a list and formats the ids.
func allPages(next func(token string) (ids []string, more string, err error)) (string, error) {
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

// set formats ids as a sorted set.
func set(ids []string) string {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	return "[" + strings.Join(ids, ", ") + "]"
}
