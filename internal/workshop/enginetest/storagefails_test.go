package enginetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// shaky is a store over a driver whose operations fail, at revision 6. Its entries
// are a second apart:
//
//	1  the schema of documents()
//	2  tuples, an attribute, a document and a secret
//	3  the owner of document 1 changes from anne to bob
//	4  the folder is shared with the group, the attribute changes
//	5  another schema, without the attribute's type
//	6  the filtered removal of document 2
type shaky struct {
	engine *ostiary.Engine
	store  *ostiary.Store
	driver *failing.Driver
	clock  *time.Time
	tokens []authz.Token // tokens[i] is the token of revision i, tokens[0] is ""
	infos  []authz.SchemaInfo
}

var shakyID = storage.StoreID{15: 7}

func shakyOptions(x *shaky) ostiary.Options {
	return ostiary.Options{Driver: x.driver, Clock: func() time.Time { return *x.clock }, SecretKey: &[32]byte{1}}
}

// newShaky fills a driver. If cold, it opens the engine again, so that nothing is in
// memory.
func newShaky(t *testing.T, d *failing.Driver, cold bool) *shaky {
	t.Helper()
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	x := &shaky{driver: d, clock: &now, tokens: []authz.Token{""}}
	e := newEngine(t, shakyOptions(x))
	s := must(e.CreateStore(ctx, ostiary.CreateStoreRequest{ID: shakyID, Name: "shaky", Aliases: map[string]string{"door": "alias"}}))(t)
	done := func(token authz.Token) {
		x.tokens = append(x.tokens, token)
		now = now.Add(time.Second)
	}
	writeModel := func(m *schema.Model) {
		info, token, err := s.WriteSchema(ctx, authz.SchemaSource{Model: m})
		if err != nil {
			t.Fatal(err)
		}
		x.infos = append(x.infos, info)
		done(token)
	}
	write := func(r authz.WriteRequest) { done(must(s.Write(ctx, r))(t)) }
	size := func(value string) []rel.Attribute {
		return []rel.Attribute{{Object: rel.Object{Type: "document", ID: "1"}, Name: "size", Value: value}}
	}
	m := documents()
	m.Types[3].Attributes = []schema.AttributeDef{{Name: "size", Type: expr.Type{Kind: expr.Int}}}
	writeModel(m)
	write(authz.WriteRequest{
		Add: tups(t, "document:1#owner@user:anne", "document:1#parent@folder:a", "document:2#viewer@user:carl", "group:g#member@user:dora",
			"document:3#owner@user:anne"),
		SetAttributes: size("1"),
		Documents:     []authz.Document{{Kind: "note", Key: "n", Secondary: []string{"s"}, Body: []byte("text")}},
		Secrets:       []authz.Document{{Kind: "note", Key: "n", Body: []byte("hidden")}},
	})
	write(authz.WriteRequest{Add: tups(t, "document:1#owner@user:bob"), Remove: []rel.Key{tup(t, "document:1#owner@user:anne").Key()}})
	write(authz.WriteRequest{Add: tups(t, "folder:a#viewer@group:g#member"), SetAttributes: size("2"),
		Documents: []authz.Document{{Kind: "note", Key: "n2", Secondary: []string{"s"}, Body: []byte("text 2")}}})
	second := documents()
	second.Types[3].Attributes = m.Types[3].Attributes
	second.Types = append(second.Types, schema.TypeDef{Name: "robot"})
	writeModel(second)
	write(authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "document", ObjectID: "2"}}}})
	x.engine, x.store = e, s
	if cold {
		x.engine = newEngine(t, shakyOptions(x))
		x.store = must(x.engine.Store(ctx, shakyID))(t)
	}
	return x
}

// state returns what the running engine and a new one read, which must be the same.
func (x *shaky) state() (string, error) {
	here, err := stateOf(x.engine)
	if err != nil {
		return "", err
	}
	fresh, err := ostiary.Open(context.Background(), shakyOptions(x))
	if err != nil {
		return "", err
	}
	defer fresh.Close()
	there, err := stateOf(fresh)
	if err == nil && here != there {
		err = fmt.Errorf("the engine reads\n%s\na new engine reads\n%s", here, there)
	}
	return here, err
}

// stateOf returns the stores of an engine with their tuples, attributes, schemas and
// the numbers of their entries.
func stateOf(e *ostiary.Engine) (string, error) {
	ctx := context.Background()
	var out strings.Builder
	for info, err := range e.Stores(ctx, storage.StoreID{}) {
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&out, info.ID, info.Name, info.Aliases)
		s, err := e.Store(ctx, info.ID)
		if err != nil {
			return "", err
		}
		if _, err = s.Resolve(ctx, authz.FullyConsistent()); err != nil {
			return "", err
		}
		tuples, err := collected(s.Export(ctx, authz.Consistency{}), rel.Tuple.String)
		attributes, err2 := s.ReadAttributes(ctx, authz.ReadAttributesRequest{})
		schemas, err3 := s.Schemas(ctx)
		page, err4 := s.Changes(ctx, authz.ChangesRequest{})
		if err := errors.Join(err, err2, err3, err4); err != nil {
			return "", err
		}
		fmt.Fprintln(&out, tuples, attributes.Attributes, len(schemas), changesText(page.Entries))
	}
	return out.String(), nil
}

// collected returns the elements of a sequence as texts, sorted.
func collected[T any](seq iter.Seq2[T, error], text func(T) string) (string, error) {
	var all []string
	for v, err := range seq {
		if err != nil {
			return strings.Join(all, ", "), err
		}
		all = append(all, text(v))
	}
	slices.Sort(all)
	return strings.Join(all, ", "), nil
}

// changesText returns the revisions of entries with the numbers of their changes.
func changesText(entries []authz.ChangeEntry) (text string) {
	for _, e := range entries {
		text += fmt.Sprintf("%d:%d ", e.Revision, len(e.Changes))
	}
	return text
}

// named is a call with a name.
type named struct {
	name string
	call func(x *shaky) (string, error)
	// elsewhere is true if another engine writes to the store before the call.
	elsewhere bool
	// inMemory is true if a loaded store is not read from the driver.
	inMemory bool
	// inSteps and optional are those of the failing.Scenario.
	inSteps  bool
	optional []failing.Operation
}

// text formats the result of a call.
func text[T any](format func(T) any) func(T, error) (string, error) {
	return func(v T, err error) (string, error) { return fmt.Sprintf("%v", format(v)), err }
}

var question = authz.CheckRequest{Object: rel.Object{Type: "document", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "dora"}}

// at returns the question at a revision that c chooses.
func at(c authz.Consistency) authz.CheckRequest {
	q := question
	q.Consistency = c
	return q
}

// TestStorageFails makes each operation of the driver fail in turn, in every call of a
// store and of the engine. See failing.Each for what must hold.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	for _, group := range [][]named{questions(), pastQuestions(), reads(), catalogCalls(), writes()} {
		for _, c := range group {
			for _, cold := range []bool{true, false} {
				if c.inMemory && !cold || c.elsewhere && cold {
					continue
				}
				t.Run(fmt.Sprintf("%s/loaded=%v", c.name, !cold), func(t *testing.T) {
					t.Parallel()
					failing.Each(t, func(t *testing.T, d *failing.Driver) failing.Scenario {
						x := newShaky(t, d, cold)
						if c.elsewhere {
							x.writeElsewhere(t)
						}
						return failing.Scenario{Call: func() (string, error) { return c.call(x) }, State: x.state, InSteps: c.inSteps, Optional: c.optional}
					})
				})
			}
		}
	}
}

// writeElsewhere writes with another engine, in two entries.
func (x *shaky) writeElsewhere(t *testing.T) {
	t.Helper()
	e := newEngine(t, ostiary.Options{Driver: x.driver.Driver, Clock: func() time.Time { return *x.clock }})
	s := must(e.Store(context.Background(), shakyID))(t)
	for _, text := range []string{"document:4#owner@user:dora", "document:1#owner@user:dora"} {
		x.tokens = append(x.tokens, must(s.Write(context.Background(), authz.WriteRequest{Add: tups(t, text)}))(t))
	}
}

// origins returns what an explanation shows of the writes behind it.
func origins(e authz.Explanation) any {
	var all []authz.Written
	var visit func(*authz.Step)
	visit = func(s *authz.Step) {
		if s.Written != nil {
			all = append(all, *s.Written)
		}
		for _, below := range s.Steps {
			visit(below)
		}
	}
	if e.Because != nil {
		visit(e.Because)
	}
	return all
}

// questions are asked at the newest revision.
func questions() []named {
	ctx := context.Background()
	object := question.Object
	checked := text(func(r authz.CheckResult) any { return r.Decision })
	return []named{
		{name: "check", inMemory: true, call: func(x *shaky) (string, error) { return checked(x.store.Check(ctx, question)) }},
		{name: "check at head", call: func(x *shaky) (string, error) {
			return checked(x.store.Check(ctx, at(authz.FullyConsistent())))
		}},
		{name: "check with schema", inMemory: true, call: func(x *shaky) (string, error) {
			q := question
			q.SchemaID = x.infos[0].ID
			return checked(x.store.Check(ctx, q))
		}},
		{name: "batch", inMemory: true, call: func(x *shaky) (string, error) {
			results, err := x.store.CheckBatch(ctx, []authz.CheckRequest{question, question}, authz.Consistency{})
			out := ""
			for i := range results {
				err = errors.Join(err, results[i].Err)
				out += results[i].Decision.String()
			}
			return out, err
		}},
		{name: "explain", inMemory: true, call: func(x *shaky) (string, error) {
			return text(func(e authz.Explanation) any { return e.Answer.Decision })(x.store.Explain(ctx, authz.ExplainRequest{CheckRequest: question}))
		}},
		{name: "explain origins", call: func(x *shaky) (string, error) {
			return text(origins)(x.store.Explain(ctx, authz.ExplainRequest{CheckRequest: question, Origins: true}))
		}},
		{name: "expand", inMemory: true, call: func(x *shaky) (string, error) {
			r := authz.ExpandRequest{Object: object, Relation: "viewer"}
			return text(func(e authz.Expansion) any { return e.Tree != nil })(x.store.Expand(ctx, r))
		}},
		{name: "expand page", inMemory: true, call: func(x *shaky) (string, error) {
			r := authz.ExpandPageRequest{ExpandRequest: authz.ExpandRequest{Object: object, Relation: "viewer"}}
			return text(func(e authz.ExpansionPage) any { return e.Next })(x.store.ExpandPage(ctx, r))
		}},
		{name: "list objects", inMemory: true, call: func(x *shaky) (string, error) {
			r := authz.ListObjectsRequest{Type: "document", Relation: "viewer", Subject: question.Subject}
			return text(func(l authz.ObjectList) any { return l.IDs })(x.store.ListObjects(ctx, r))
		}},
		{name: "list subjects", inMemory: true, call: func(x *shaky) (string, error) {
			r := authz.ListSubjectsRequest{Object: object, Relation: "viewer", SubjectType: "user"}
			return text(func(l authz.SubjectList) any { return l.IDs })(x.store.ListSubjects(ctx, r))
		}},
		{name: "first subject", inMemory: true, call: func(x *shaky) (string, error) {
			id, ok, err := x.store.FirstSubject(ctx, object, "owner", "user")
			return fmt.Sprint(id, ok), err
		}},
		{name: "entitlements", inMemory: true, call: func(x *shaky) (string, error) {
			r, err := x.store.Entitlements(ctx, authz.EntitlementsRequest{Subject: question.Subject, Objects: []rel.Object{object}})
			if err == nil {
				err = r.Objects[0].Err
			}
			if err != nil {
				return "", err
			}
			return fmt.Sprint(r.Objects[0].Relations), nil
		}},
		{name: "what if", inMemory: true, call: func(x *shaky) (string, error) {
			r, err := x.store.WhatIf(ctx, authz.WhatIfRequest{Questions: []authz.CheckRequest{question}, SchemaID: x.infos[0].ID,
				Changes: authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "folder"}}}}})
			if err == nil {
				err = cmp.Or(r.Items[0].Before.Err, r.Items[0].After.Err)
			}
			return fmt.Sprint(r.Gained, r.Lost), err
		}},
	}
}

// pastQuestions read the log or earlier revisions.
func pastQuestions() []named {
	ctx := context.Background()
	checked := text(func(r authz.CheckResult) any { return r.Decision })
	closing := []failing.Operation{failing.CloseState} // the state has been read then
	selector := authz.PermissionSelector{ObjectType: "document", Relation: "viewer", SubjectType: "user", Objects: []string{"1"}}
	changed := func(changes []authz.PermissionChange) (out string) {
		for _, c := range changes {
			out += fmt.Sprint(c.Object, c.Subject, c.Before, c.After, " ")
		}
		return out
	}
	return []named{
		{name: "check at revision", optional: closing, call: func(x *shaky) (string, error) {
			return checked(x.store.Check(ctx, at(authz.AtRevision(3))))
		}},
		{name: "explain origins at revision", optional: closing, call: func(x *shaky) (string, error) {
			q := at(authz.AtRevision(2))
			q.Subject = rel.Subject{Type: "user", ID: "anne"}
			return text(origins)(x.store.Explain(ctx, authz.ExplainRequest{CheckRequest: q, Origins: true}))
		}},
		{name: "check at token", optional: closing, call: func(x *shaky) (string, error) {
			return checked(x.store.Check(ctx, at(authz.AtExactly(x.tokens[2]))))
		}},
		{name: "check at time", optional: closing, call: func(x *shaky) (string, error) {
			return checked(x.store.Check(ctx, at(authz.AtTime(x.clock.Add(-3*time.Second)))))
		}},
		{name: "check at least", inMemory: true, call: func(x *shaky) (string, error) {
			return checked(x.store.Check(ctx, at(authz.AtLeast(x.tokens[3]))))
		}},
		{name: "check at head after another engine", elsewhere: true, call: func(x *shaky) (string, error) {
			return checked(x.store.Check(ctx, at(authz.FullyConsistent())))
		}},
		// Who looks for the revision may look at the head once more when the call has its answer.
		{name: "check at a token of another engine", elsewhere: true, optional: []failing.Operation{failing.Head}, call: func(x *shaky) (string, error) {
			return checked(x.store.Check(ctx, at(authz.AtLeast(x.tokens[8]))))
		}},
		{name: "entry", call: func(x *shaky) (string, error) {
			return text(func(e authz.ChangeEntry) any { e.Token = ""; return e })(x.store.Entry(ctx, x.tokens[3]))
		}},
		{name: "changes after another engine", elsewhere: true, call: func(x *shaky) (string, error) {
			p, err := x.store.Changes(ctx, authz.ChangesRequest{AfterRevision: 7})
			return changesText(p.Entries), err
		}},
		{name: "attributes of the past", optional: closing, call: func(x *shaky) (string, error) {
			return text(func(p authz.AttributePage) any { return p.Attributes })(x.store.ReadAttributes(ctx, authz.ReadAttributesRequest{Consistency: authz.AtRevision(2)}))
		}},
		{name: "difference", optional: closing, call: func(x *shaky) (string, error) {
			r, err := x.store.Difference(ctx, authz.DifferenceRequest{PermissionSelector: selector, From: authz.AtRevision(2), To: authz.AtExactly(x.tokens[4])})
			return changed(r.Changes) + fmt.Sprint(r.UnknownCount), err
		}},
		{name: "watch permission", optional: closing, call: func(x *shaky) (string, error) {
			out := ""
			for u, err := range x.store.WatchPermission(ctx, authz.WatchPermissionRequest{PermissionSelector: selector, After: x.tokens[2]}) {
				if out = changed(u.Changes); err != nil {
					return out, err
				}
				break
			}
			return out, nil
		}},
		{name: "changes", call: func(x *shaky) (string, error) {
			return text(func(p authz.ChangePage) any { return changesText(p.Entries) })(x.store.Changes(ctx, authz.ChangesRequest{}))
		}},
		{name: "changes after a token", call: func(x *shaky) (string, error) {
			p, err := x.store.Changes(ctx, authz.ChangesRequest{After: x.tokens[2], Limit: 2, Types: []string{"document"}})
			return fmt.Sprint(changesText(p.Entries), p.More, p.Next == x.tokens[4]), err
		}},
		{name: "changes after a revision", call: func(x *shaky) (string, error) {
			p, err := x.store.Changes(ctx, authz.ChangesRequest{AfterRevision: 6})
			return fmt.Sprint(changesText(p.Entries), p.More, p.Next == x.tokens[6]), err
		}},
		{name: "changes since", call: func(x *shaky) (string, error) {
			p, err := x.store.Changes(ctx, authz.ChangesRequest{Since: x.clock.Add(-3 * time.Second)})
			return changesText(p.Entries), err
		}},
		{name: "watch", call: func(x *shaky) (string, error) {
			var all []authz.ChangeEntry
			for e, err := range x.store.Watch(ctx, authz.WatchRequest{After: x.tokens[1]}) {
				if err != nil {
					return "", err
				}
				if all = append(all, e); e.Revision == 6 {
					break
				}
			}
			return changesText(all), nil
		}},
	}
}

// reads return what the store contains.
func reads() []named {
	ctx := context.Background()
	read := func(x *shaky, limit int) (string, error) {
		var all []string
		for cursor := ""; ; {
			page, err := x.store.Read(ctx, authz.ReadRequest{Limit: limit, Cursor: cursor})
			if err != nil {
				return "", err
			}
			for _, t := range page.Tuples {
				all = append(all, t.String()+" "+t.Created.Format(time.TimeOnly))
			}
			if cursor = page.Next; cursor == "" {
				return strings.Join(all, ", "), nil
			}
		}
	}
	key := authz.DocumentKey{Kind: "note", Key: "n"}
	body := text(func(d authz.Document) any { return d.Key + string(d.Body) })
	return []named{
		{name: "load", inMemory: true, call: func(x *shaky) (string, error) { return "", x.store.Load(ctx) }},
		{name: "head", inMemory: true, call: func(x *shaky) (string, error) {
			token, err := x.store.Head(ctx)
			return fmt.Sprint(token == x.tokens[6]), err
		}},
		{name: "read", call: func(x *shaky) (string, error) { return read(x, 100) }},
		{name: "read pages", optional: []failing.Operation{failing.CloseState}, call: func(x *shaky) (string, error) { return read(x, 2) }},
		{name: "attributes", inMemory: true, call: func(x *shaky) (string, error) {
			return text(func(p authz.AttributePage) any { return p.Attributes })(x.store.ReadAttributes(ctx, authz.ReadAttributesRequest{}))
		}},
		{name: "export", inMemory: true, call: func(x *shaky) (string, error) {
			return collected(x.store.Export(ctx, authz.Consistency{}), rel.Tuple.String)
		}},
		{name: "schema", call: func(x *shaky) (string, error) {
			return text(func(s *ostiary.Schema) any { return s != nil && len(s.Model.Types) > 0 })(x.store.Schema(ctx, x.infos[0].ID))
		}},
		{name: "schemas", inMemory: true, call: func(x *shaky) (string, error) {
			return text(func(s []authz.SchemaInfo) any { return len(s) })(x.store.Schemas(ctx))
		}},
		{name: "compiled", inMemory: true, call: func(x *shaky) (string, error) {
			_, s, err := x.store.Compiled(ctx, x.infos[1].ID)
			return fmt.Sprint(s != nil && len(s.Types) > 0), err
		}},
		{name: "current schema", inMemory: true, call: func(x *shaky) (string, error) {
			return text(func(s authz.SchemaInfo) any { return s.Revision })(x.store.CurrentSchema(ctx, ""))
		}},
		{name: "document", call: func(x *shaky) (string, error) { return body(x.store.Document(ctx, key)) }},
		{name: "documents", call: func(x *shaky) (string, error) {
			return text(func(d []authz.Document) any { return d })(x.store.DocumentsBy(ctx, "note", "s"))
		}},
		{name: "documents of kinds", call: func(x *shaky) (string, error) {
			var all []authz.Document
			token, err := x.store.Documents(ctx, []string{"note", "none"}, func(d authz.Document) error { all = append(all, d); return nil })
			return text(func(authz.Token) any { return all })(token, err)
		}},
		{name: "secret", call: func(x *shaky) (string, error) { return body(x.store.Secret(ctx, key)) }},
		{name: "stats", inMemory: true, call: func(x *shaky) (string, error) {
			return text(func(s ostiary.Stats) any { return fmt.Sprint(s.Revision, s.Graph.Tuples, s.Schemas) })(x.store.Stats(ctx))
		}},
		{name: "resolve", inMemory: true, call: func(x *shaky) (string, error) {
			token, err := x.store.Resolve(ctx, authz.AtLeast(x.tokens[2]))
			return fmt.Sprint(token == x.tokens[6]), err
		}},
		{name: "hold", inMemory: true, call: func(x *shaky) (string, error) {
			c, err := x.store.Hold(ctx, authz.Consistency{})
			if err != nil {
				return "", err
			}
			return text(func(r authz.CheckResult) any { return r.Decision })(x.store.Check(ctx, at(c)))
		}},
		{name: "token", inMemory: true, call: func(x *shaky) (string, error) {
			token, err := x.store.TokenAt(ctx, 3)
			return fmt.Sprint(token == x.tokens[3]), err
		}},
	}
}

// catalogCalls are the calls of the engine about its stores, and maintenance.
func catalogCalls() []named {
	ctx := context.Background()
	other := storage.StoreID{15: 8}
	return []named{
		{name: "open", call: func(x *shaky) (string, error) {
			e, err := ostiary.Open(ctx, shakyOptions(x))
			if err != nil {
				return "", err
			}
			return "", e.Close()
		}},
		{name: "find", call: func(x *shaky) (string, error) {
			e, err := ostiary.Open(ctx, shakyOptions(x))
			if err != nil {
				return "", err
			}
			defer e.Close()
			return text(func(s *ostiary.Store) any { return s != nil && s.Info().Name == "shaky" })(e.Store(ctx, shakyID))
		}},
		{name: "alias", call: func(x *shaky) (string, error) {
			return text(func(s *ostiary.Store) any { return s != nil && s.ID() == shakyID })(x.engine.StoreByAlias(ctx, "door", "alias"))
		}},
		{name: "stores", call: func(x *shaky) (string, error) {
			return collected(x.engine.Stores(ctx, storage.StoreID{}), func(i storage.StoreInfo) string { return i.Name })
		}},
		{name: "create", call: func(x *shaky) (string, error) {
			_, err := x.engine.CreateStore(ctx, ostiary.CreateStoreRequest{ID: other, Name: "other"})
			return "", err
		}},
		{name: "update", call: func(x *shaky) (string, error) {
			err := x.engine.UpdateStore(ctx, shakyID, replace("renamed", map[string]string{"door": "b"}))
			return x.store.Info().Name, err
		}},
		{name: "delete", call: func(x *shaky) (string, error) { return "", x.engine.DeleteStore(ctx, shakyID) }},
		{name: "compact", inMemory: true, call: func(x *shaky) (string, error) { return "", x.store.Compact(ctx) }},
		{name: "collect", inSteps: true, call: func(x *shaky) (string, error) {
			*x.clock = x.clock.Add(time.Hour)
			r, err := x.store.Collect(ctx)
			return fmt.Sprint(r.Expired, r.Log, r.Rows), err
		}},
		{name: "trim", call: func(x *shaky) (string, error) { return "", x.store.Trim(ctx, 1, 4) }},
	}
}

// writes change the store.
func writes() []named {
	ctx := context.Background()
	written := func(_ authz.Token, err error) (string, error) { return "", err }
	return []named{
		{name: "write", call: func(x *shaky) (string, error) {
			return written(x.store.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{{Object: question.Object, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "eve"}}}}))
		}},
		{name: "write under a schema", call: func(x *shaky) (string, error) {
			return written(x.store.Write(ctx, authz.WriteRequest{SchemaID: x.infos[0].ID,
				Add: []rel.Tuple{{Object: question.Object, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "eve"}}}}))
		}},
		{name: "write of a removal", call: func(x *shaky) (string, error) {
			return written(x.store.Write(ctx, authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "document"}}},
				Preconditions: []authz.Precondition{{Filter: rel.Filter{ObjectType: "document"}}}}))
		}},
		{name: "write after another engine", elsewhere: true, call: func(x *shaky) (string, error) {
			return written(x.store.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{{Object: question.Object, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "eve"}}}}))
		}},
		{name: "write schema", call: func(x *shaky) (string, error) {
			_, token, err := x.store.WriteSchema(ctx, authz.SchemaSource{Model: documents()})
			return written(token, err)
		}},
		{name: "remove schema", call: func(x *shaky) (string, error) { return written(x.store.RemoveSchema(ctx, x.infos[0].ID)) }},
		{name: "import", inSteps: true, call: func(x *shaky) (string, error) {
			r, err := x.store.Import(ctx, func(yield func(rel.Tuple, error) bool) {
				for i := range 6 {
					if !yield(rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprint(i)}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "zoe"}}, nil) {
						return
					}
				}
			}, authz.ImportOptions{EntryTuples: 2, OnDuplicate: authz.Ignore})
			return fmt.Sprint(r.Read, r.Written), err
		}},
	}
}

// TestUncertain makes an append fail before or after it takes effect, and then what the
// engine reads to find out. The error must say whether the outcome is known.
func TestUncertain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	full := errors.New("the disk is full")
	for _, c := range []struct {
		name      string
		fault     failing.Fault
		kind      error // nil: the write succeeds
		effective bool
	}{
		{"append fails", failing.Fault{Number: 1, Only: []failing.Operation{failing.Append}}, authz.ErrStorage, false},
		{"append fails, then the head", failing.Fault{Number: 1, Only: []failing.Operation{failing.Append, failing.Head}, Lasting: true}, authz.ErrUncertain, false},
		{"the response is lost", failing.Fault{Number: 1, Only: []failing.Operation{failing.Append}, After: true}, nil, true},
		{"the response is lost, then the head fails", failing.Fault{Number: 1, Only: []failing.Operation{failing.Append, failing.Head}, After: true, Lasting: true}, authz.ErrUncertain, true},
		{"the response is lost, then the log fails", failing.Fault{Number: 1, Only: []failing.Operation{failing.Append, failing.Entries}, After: true, Lasting: true}, authz.ErrUncertain, true},
		{"the response is lost, then an entry is damaged", failing.Fault{Number: 1, Only: []failing.Operation{failing.Append, failing.EntriesNext}, After: true, Lasting: true}, authz.ErrUncertain, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newShaky(t, failing.New(memory.New()), false)
			c.fault.Err = full
			x.driver.Break(c.fault)
			_, err := x.store.Write(ctx, authz.WriteRequest{Add: tups(t, "document:9#owner@user:eve")})
			x.driver.Mend()
			if c.kind == nil {
				must(struct{}{}, err)(t)
			} else if wantKind(t, err, c.kind); !errors.Is(err, full) {
				t.Errorf("error %v does not have the cause", err)
			}
			// The next write follows whatever the log has.
			must(x.store.Write(ctx, authz.WriteRequest{Add: tups(t, "document:9#owner@user:dora")}))(t)
			want(t, x.store, "document:9#owner@user:dora", "true")
			want(t, x.store, "document:9#owner@user:eve", fmt.Sprint(c.effective))
			if _, err := x.state(); err != nil {
				t.Error(err)
			}
		})
	}
}
