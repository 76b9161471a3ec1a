package acp_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestScripts plays testdata/*.txt: records of a command (with a text below
// it), a line of dashes, and what it answers. Each script runs twice: in one
// life, and with the engine closed and opened again before each command.
func TestScripts(t *testing.T) {
	t.Parallel()
	files := must(filepath.Glob("testdata/*.txt"))(t)
	if len(files) < 5 {
		t.Fatal("scripts are missing")
	}
	for _, file := range files {
		for _, reopened := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,reopened=%t", filepath.Base(file), reopened), func(t *testing.T) {
				playScript(t, file, reopened)
			})
		}
	}
}

func playScript(t *testing.T, file string, reopened bool) {
	text := string(must(os.ReadFile(file))(t))
	p := &player{ctx: context.Background(), store: memory.NewStore(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	p.start(t)
	defer func() { p.engine.Close() }()
	var out []string
	for _, rec := range strings.Split(strings.TrimSpace(text), "\n\n") {
		command, want, ok := strings.Cut(rec, "\n----\n")
		if !ok && !strings.HasPrefix(rec, "#") {
			command, want = strings.TrimSuffix(rec, "\n----"), ""
		} else if !ok {
			out = append(out, rec)
			continue
		}
		if reopened {
			must(0, p.engine.Close())(t)
			p.start(t)
		}
		got := p.run(command)
		out = append(out, command+"\n----\n"+got)
		if got != want && !golden.Rewrite() {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", command, got, want)
		}
	}
	if golden.Rewrite() && !reopened {
		must(0, os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o644))(t)
	}
}

// player carries out a script's commands.
type player struct {
	ctx      context.Context
	store    *memory.Store
	engine   *acp.Engine
	policies []string
	policy   string
	now      time.Time
	events   []string
}

func (p *player) start(t *testing.T) {
	var driver storage.Driver = must(kv.New(p.store, kv.Options{}))(t)
	p.engine = must(acp.Open(p.ctx, acp.Options{Driver: driver, Clock: func() time.Time { return p.now },
		Event: func(ev acp.Event) {
			p.events = append(p.events, strings.TrimSpace(fmt.Sprintf("%s by %s: %s %s %s", ev.Kind, nameOf(ev.Actor), ev.Object.ID, ev.Relation, nameOf(ev.Subject.String()))))
		}}))(t)
}

var people = map[string]string{"alice": alice, "bob": bob, "carol": carol, "-": "", "everybody": acp.AllActors}

func did(name string) string {
	if d, ok := people[name]; ok {
		return d
	}
	return name
}

func nameOf(did string) string {
	for name, d := range people {
		if d == did && d != "" {
			return name
		}
	}
	return did
}

// kinds are the errors' names, the particular ones first.
var kinds = []struct {
	err  error
	name string
}{
	{acp.ErrPolicyNotFound, "policy not found"}, {acp.ErrResourceNotFound, "resource not found"},
	{acp.ErrRelationNotFound, "relation not found"}, {acp.ErrPermissionNotFound, "permission not found"},
	{acp.ErrObjectNotFound, "object not found"}, {acp.ErrSyntax, "syntax"}, {acp.ErrField, "field"}, {acp.ErrMissing, "missing"},
	{acp.ErrName, "name"}, {acp.ErrDuplicate, "duplicate"}, {acp.ErrReserved, "reserved"}, {acp.ErrUndefined, "undefined"},
	{acp.ErrExpression, "expression"}, {acp.ErrSpecification, "specification"}, {acp.ErrEdit, "edit"},
	{acp.ErrRequiredPermission, "required permission"}, {acp.ErrInvalidDID, "DID"}, {acp.ErrInvalidID, "id"},
	{acp.ErrInvalidTime, "time"}, {acp.ErrRestriction, "restriction"}, {acp.ErrTheorem, "theorem"}, {acp.ErrBound, "bound"}, {acp.ErrBatch, "batch"},
	{acp.ErrRegistered, "registered"}, {acp.ErrArchived, "archived"}, {acp.ErrOwnerRelation, "owner relation"},
	{acp.ErrInput, "BAD_INPUT"}, {acp.ErrUnauthenticated, "UNAUTHENTICATED"}, {acp.ErrUnauthorized, "UNAUTHORIZED"},
	{acp.ErrForbidden, "OPERATION_FORBIDDEN"}, {acp.ErrNotFound, "NOT_FOUND"}, {acp.ErrUndecided, "UNDECIDED"},
	{acp.ErrState, "STATE"}, {acp.ErrCanceled, "CANCELED"}, {acp.ErrInternal, "INTERNAL"},
}

func kindNames(err error) string {
	var names []string
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			names = append(names, k.name)
		}
	}
	return "error: " + strings.Join(names, ", ")
}

// answer prints a result or an error's kinds.
func answer[T any](v T, err error) string {
	if err != nil {
		return kindNames(err)
	}
	return fmt.Sprint(v)
}

func done(err error) string { return answer("ok", err) }

// object reads resource:id. An id in Go's quotes may have any bytes.
func (p *player) object(s string) acp.Object {
	resource, id, _ := strings.Cut(s, ":")
	if text, err := strconv.Unquote(id); err == nil {
		id = text
	}
	return acp.Object{Policy: p.policy, Resource: resource, ID: id}
}

// subject reads a person, "resource:id" or "resource:id#relation".
func (p *player) subject(s string) acp.Subject {
	if _, ok := people[s]; ok || strings.HasPrefix(s, "did:") || !strings.Contains(s, ":") {
		return acp.ActorSubject(did(s))
	}
	object, relation := s, ""
	if i := strings.LastIndexByte(s, '#'); i >= 0 && !strings.HasSuffix(s, `"`) {
		object, relation = s[:i], s[i+1:]
	}
	o := p.object(object)
	return acp.Subject{Resource: o.Resource, ID: o.ID, Relation: relation}
}

func (p *player) relationship(f []string) acp.Relationship {
	return acp.Relationship{Object: p.object(f[2]), Relation: f[3], Subject: p.subject(f[4])}
}

func (p *player) run(command string) string {
	line, text, _ := strings.Cut(command, "\n")
	f := strings.Fields(line)
	e := p.engine
	switch f[0] {
	case "policy":
		src := acp.PolicySource{Text: text}
		if len(f) > 2 {
			src.Specification = f[2]
		}
		rec, err := p.create(f[1], src)
		if err != nil {
			return kindNames(err)
		}
		p.policies, p.policy = append(p.policies, rec.ID), rec.ID
		return rec.ID
	case "use":
		p.policy = f[1]
		for i, id := range p.policies {
			if fmt.Sprint(i+1) == f[1] {
				p.policy = id
			}
		}
		return "ok"
	case "edit":
		src := acp.PolicySource{Text: text}
		if len(f) > 2 {
			src.Specification = f[2]
		}
		if f[1] == "root" {
			return answer(e.Root().EditPolicy(p.ctx, p.policy, src))
		}
		return answer(e.EditPolicy(p.ctx, did(f[1]), p.policy, src))
	case "metadata":
		if f[1] == "root" {
			return done(e.Root().EditPolicyMetadata(p.ctx, p.policy, map[string]string{f[2]: f[3]}))
		}
		return done(e.EditPolicyMetadata(p.ctx, did(f[1]), p.policy, map[string]string{f[2]: f[3]}))
	case "get":
		return p.get()
	case "policies":
		return p.list()
	case "delete-policy":
		if f[1] == "root" {
			return done(e.Root().DeletePolicy(p.ctx, p.policy))
		}
		return done(e.DeletePolicy(p.ctx, did(f[1]), p.policy))
	case "register":
		return done(e.Register(p.ctx, did(f[1]), p.object(f[2])))
	case "archive":
		return answer(e.Archive(p.ctx, did(f[1]), p.object(f[2])))
	case "unarchive":
		return answer(e.Unarchive(p.ctx, did(f[1]), p.object(f[2])))
	case "transfer":
		return done(e.Transfer(p.ctx, did(f[1]), p.object(f[2]), did(f[3])))
	case "amend":
		return done(e.Root().AmendRegistration(p.ctx, p.object(f[1]), did(f[2]), p.time(f[3:], p.now.AddDate(-1, 0, 0))))
	case "reveal":
		return done(e.Root().RevealRegistration(p.ctx, did(f[1]), p.object(f[2]), p.time(f[3:], p.now.AddDate(-2, 0, 0))))
	case "any":
		return answer(e.AccessAny(p.ctx, did(f[1]), f[3:], p.object(f[2])))
	case "effective":
		rec, err := e.Policy(p.ctx, p.policy)
		if err != nil {
			return kindNames(err)
		}
		return answer(rec.EffectiveExpression(f[1], f[2]))
	case "catalogue":
		return p.catalogue()
	case "many":
		return answer(e.CheckMany(p.ctx, did(f[1]), f[2], p.policy, f[3], p.ids(f[4:])))
	case "registration":
		r, err := e.Registration(p.ctx, p.object(f[1]))
		return answer(fmt.Sprintf("%s archived=%t since %s", nameOf(r.Owner), r.Archived, r.Since.Format("2006-01-02")), err)
	case "registered":
		return answer(e.IsRegistered(p.ctx, p.object(f[1])))
	case "relate":
		return answer(e.SetRelationship(p.ctx, did(f[1]), p.relationship(f)))
	case "unrelate":
		return answer(e.DeleteRelationship(p.ctx, did(f[1]), p.relationship(f)))
	case "filter":
		return p.filter(f[1:])
	case "check":
		return p.check(f)
	case "manage":
		return answer(e.MayManage(p.ctx, did(f[1]), f[2], p.object(f[3])))
	case "verify":
		var ops []acp.Operation
		for _, x := range f[2:] {
			permission, object, _ := strings.Cut(x, "@")
			ops = append(ops, acp.Operation{Permission: permission, Object: p.object(object)})
		}
		return answer(e.VerifyAccess(p.ctx, did(f[1]), ops))
	case "readable":
		return p.readable(f)
	case "validate":
		return done(e.ValidateResource(p.ctx, p.policy, f[1], f[2:]...))
	case "theorem":
		return p.theorem(text)
	case "events":
		out := strings.Join(p.events, "\n")
		p.events = nil
		return out
	case "reset":
		return done(e.ResetState(p.ctx))
	case "day":
		p.now = p.now.AddDate(0, 0, 1)
		return "ok"
	}
	return "unknown command"
}

// create creates a policy as the root or as a person.
func (p *player) create(who string, src acp.PolicySource) (*acp.PolicyRecord, error) {
	if who == "root" {
		return p.engine.Root().CreatePolicy(p.ctx, src)
	}
	return p.engine.CreatePolicy(p.ctx, did(who), src)
}

// time returns the zero time for "zero", tomorrow for "tomorrow", now for "now", and
// otherwise for an absent argument.
func (p *player) time(args []string, otherwise time.Time) time.Time {
	switch {
	case len(args) == 0:
		return otherwise
	case args[0] == "tomorrow":
		return p.now.AddDate(0, 0, 1)
	case args[0] == "now":
		return p.now
	}
	return time.Time{}
}

// ids reads ids, which may be in quotes.
func (p *player) ids(texts []string) (out []string) {
	for _, s := range texts {
		out = append(out, p.object(":"+s).ID)
	}
	return out
}

func (p *player) catalogue() string {
	c, err := p.engine.Catalogue(p.ctx, p.policy)
	if err != nil {
		return kindNames(err)
	}
	var actors []string
	for _, a := range c.Actors {
		actors = append(actors, nameOf(a))
	}
	out := []string{c.ActorResource + " " + strings.Join(actors, " ")}
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		r := c.Resources[name]
		out = append(out, fmt.Sprintf("%s: permissions %q, relations %q, objects %q", name, r.Permissions, r.Relations, r.Objects))
	}
	return strings.Join(out, "\n")
}

// check asks Check and Access, which must agree.
func (p *player) check(f []string) string {
	ok, err := p.engine.Check(p.ctx, did(f[1]), f[2], p.object(f[3]))
	access, err2 := p.engine.Access(p.ctx, did(f[1]), f[2], p.object(f[3]))
	if (err == nil) != (err2 == nil) || ok != (access == acp.Allow) {
		return fmt.Sprint("they differ: ", ok, access, err, err2)
	}
	return answer(access, err)
}

func (p *player) get() string {
	rec, err := p.engine.Policy(p.ctx, p.policy)
	if err != nil {
		return kindNames(err)
	}
	return fmt.Sprintf("%s %s by %s, %s, %d resources, meta %v, metadata %v, created %s, modified %s", rec.Name, rec.Dialect, nameOf(rec.Creator),
		rec.Specification, len(rec.Resources), rec.Meta, rec.Metadata, rec.Created.Format("2006-01-02"), rec.Modified.Format("2006-01-02"))
}

func (p *player) list() string {
	var out []string
	for rec, err := range p.engine.Policies(p.ctx) {
		if err != nil {
			return kindNames(err)
		}
		out = append(out, fmt.Sprintf("%d %s", slices.Index(p.policies, rec.ID)+1, rec.Name))
	}
	return strings.Join(out, "\n")
}

// filter takes "object=", "resource=", "relation=" and "subject=".
func (p *player) filter(args []string) string {
	var f acp.RelationshipFilter
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "object":
			o := p.object(v)
			f.Resource, f.ID = o.Resource, o.ID
		case "resource":
			f.Resource = v
		case "relation":
			f.Relation = v
		case "subject":
			f.Subject = p.subject(v)
		}
	}
	var out []string
	for x, err := range p.engine.FilterRelationships(p.ctx, p.policy, f) {
		if err != nil {
			return kindNames(err)
		}
		out = append(out, fmt.Sprintf("%s#%s@%s", x.Object, x.Relation, nameOf(x.Subject.String())))
	}
	return strings.Join(out, "\n")
}

func (p *player) readable(f []string) string {
	var ids []string
	for id, err := range p.engine.Readable(p.ctx, did(f[1]), f[2], p.policy, f[3]) {
		if err != nil {
			return kindNames(err)
		}
		if strings.ContainsFunc(id, func(r rune) bool { return !strconv.IsGraphic(r) || r == ' ' }) {
			id = strconv.Quote(id)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func (p *player) theorem(text string) string {
	for name, d := range people {
		if strings.HasPrefix(d, "did:") {
			text = strings.ReplaceAll(text, "did:"+name, d)
		}
	}
	r, err := p.engine.EvaluateTheorem(p.ctx, p.policy, text)
	if err != nil {
		return kindNames(err)
	}
	var out []string
	for _, c := range slices.Concat(r.Authorizations, r.Delegations) {
		out = append(out, fmt.Sprintf("%d:%d-%d:%d %s", c.Line, c.Column, c.EndLine, c.EndColumn, c.Verdict))
	}
	return strings.Join(append(out, fmt.Sprintf("ok=%t count=%d failures=%d", r.OK(), r.Count, r.Failures)), "\n")
}
