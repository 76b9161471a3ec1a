package commit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/document"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// changeText prints a change of a log entry. ids replaces the ids of schemas, which are
// random.
func changeText(c *storage.Change, ids *strings.Replacer) string {
	text := fmt.Sprintf("kind %d", c.Kind)
	if c.Tuple != (rel.Tuple{}) {
		text += fmt.Sprintf(" %v", c.Tuple)
	}
	if c.Attribute != (rel.Attribute{}) {
		text += fmt.Sprintf(" %s.%s=%s", c.Attribute.Object, c.Attribute.Name, c.Attribute.Value)
	}
	if c.Document.Kind != "" {
		text += fmt.Sprintf(" document %s/%s %q", c.Document.Kind, ids.Replace(c.Document.Key), c.Document.Secondary)
		if c.Kind == storage.DocumentPut && c.Document.Kind == "note" {
			text += fmt.Sprintf(" %s", c.Document.Body)
		}
	}
	if c.Filter != (storage.Filter{}) {
		text += fmt.Sprintf(" filter %d %s%s%s%s%s", c.Filter.Target, c.Filter.Tuple.ObjectType, c.Filter.Tuple.ObjectID, c.Filter.ObjectType, c.Filter.Name, c.Filter.DocumentKind)
	}
	return text
}

// TestWrites makes one write after the other, and compares their log entries and errors
// with a file.
func TestWrites(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	now := time.Date(2100, 1, 1, 12, 0, 0, 0, time.UTC)
	w.runtime.Clock = func() time.Time { return now }
	sealer, err := document.NewSealer([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	w.queue = NewQueue(NewShared(w.runtime, sealer), w.timeline)
	model := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc",
		Attributes: []schema.AttributeDef{{Name: "size", Type: expr.Type{Kind: expr.Int}}},
		Relations: []schema.RelationDef{
			{Name: "owner", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}},
			{Name: "viewer", Rewrite: schema.Union(schema.Direct(), schema.Computed("owner")), Subjects: []schema.SubjectType{{Type: "user"}, {Type: "user", Wildcard: true}}},
			{Name: "reader", Rewrite: schema.Computed("viewer")},
			{Name: "public", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user", Wildcard: true}}},
		}}}}
	first, _ := w.timeline.Loaded().CurrentSchema("")
	names := []string{first.ID, "FIRST"}
	var out strings.Builder
	// entry prints the newest log entry, if a call made one.
	last := w.timeline.Loaded().Head.Revision
	note := func(name string, token authz.Token, err error) {
		t.Helper()
		ids := strings.NewReplacer(names...)
		head := w.timeline.Loaded().Head
		fmt.Fprintf(&out, "%s\n", name)
		if err != nil {
			var e *authz.Error
			if !errors.As(err, &e) || e.Store != w.info.ID {
				t.Errorf("%s: error %v does not name the store", name, err)
			}
			_, text, _ := strings.Cut(strings.TrimPrefix(err.Error(), "ostiary: "), w.info.ID.String()+": ")
			fmt.Fprintf(&out, "  error: %s\n", ids.Replace(strings.ReplaceAll(text, string(w.timeline.Token(head)), "TOKEN")))
		} else if token != w.timeline.Token(head) {
			t.Errorf("%s: the token is not that of the newest revision", name)
		}
		if head.Revision == last {
			fmt.Fprintln(&out, "  no entry")
			return
		}
		for e, err := range w.driver.Entries(ctx, w.info.ID, last+1) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "  revision %d at %s\n", e.Revision, e.Time.Time().UTC().Format(time.TimeOnly))
			for i := range e.Changes {
				fmt.Fprintf(&out, "    %s\n", changeText(&e.Changes[i], ids))
			}
		}
		last = head.Revision
	}
	write := func(name string, r authz.WriteRequest) {
		t.Helper()
		now = now.Add(time.Second)
		token, err := w.queue.Write(ctx, &r)
		note(name, token, err)
	}
	writeSchema := func(name string, m *schema.Model) authz.SchemaInfo {
		t.Helper()
		now = now.Add(time.Second)
		info, token, err := w.queue.WriteSchema(ctx, &authz.SchemaSource{Model: m})
		if err == nil {
			names = append(names, info.ID, strings.ToUpper(strings.ReplaceAll(name, " ", "-")))
		}
		if err == nil && (info.Revision != w.timeline.Loaded().Head.Revision || !info.Created.Equal(now)) {
			t.Errorf("%s: revision %d at %s, expected revision %d at %s", name, info.Revision, info.Created, w.timeline.Loaded().Head.Revision, now)
		}
		note(name, token, err)
		return info
	}
	tuples := func(texts ...string) (all []rel.Tuple) {
		for _, text := range texts {
			x, err := rel.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
		return all
	}
	keys := func(texts ...string) (all []rel.Key) {
		for _, x := range tuples(texts...) {
			all = append(all, x.Key())
		}
		return all
	}
	expiring := func(text string, after time.Duration) []rel.Tuple {
		all := tuples(text)
		all[0].Expires = rel.TimeOf(now.Add(after))
		return all
	}
	attribute := func(typ, name, value string) []rel.Attribute {
		return []rel.Attribute{{Object: rel.Object{Type: typ, ID: "1"}, Name: name, Value: value}}
	}
	second := writeSchema("the second schema", model)
	write("nothing", authz.WriteRequest{})
	write("tuples", authz.WriteRequest{Add: tuples("doc:1#owner@user:anne", "doc:2#viewer@user:*", "doc:2#viewer@user:bob")})
	write("a tuple that exists", authz.WriteRequest{Add: tuples("doc:3#owner@user:anne", "doc:1#owner@user:anne")})
	write("a tuple that exists, ignored", authz.WriteRequest{Add: tuples("doc:3#owner@user:anne", "doc:1#owner@user:anne"), OnDuplicate: authz.Ignore})
	write("another expiry is no duplicate to ignore", authz.WriteRequest{Add: expiring("doc:1#owner@user:anne", time.Minute), OnDuplicate: authz.Ignore})
	write("another expiry replaces", authz.WriteRequest{Add: expiring("doc:1#owner@user:anne", 5*time.Second), OnDuplicate: authz.Replace})
	write("the same again", authz.WriteRequest{Add: expiring("doc:1#owner@user:anne", 4*time.Second), OnDuplicate: authz.Replace})
	write("a key that is absent", authz.WriteRequest{Remove: keys("doc:3#owner@user:anne", "doc:9#owner@user:anne")})
	write("a key that is absent, ignored", authz.WriteRequest{Remove: keys("doc:3#owner@user:anne", "doc:9#owner@user:anne"), OnMissing: authz.Ignore})
	now = now.Add(time.Minute)
	write("the removal of an expired tuple", authz.WriteRequest{Remove: keys("doc:1#owner@user:anne")})
	write("a precondition on an expired tuple", authz.WriteRequest{Preconditions: []authz.Precondition{{Filter: rel.Filter{ObjectID: "1"}}}})
	write("the absence of an expired tuple, which is written again", authz.WriteRequest{Preconditions: []authz.Precondition{{Filter: rel.Filter{ObjectID: "1"}, Absent: true}}, Add: tuples("doc:1#owner@user:anne")})
	write("the second precondition fails", authz.WriteRequest{Preconditions: []authz.Precondition{{Filter: rel.Filter{ObjectID: "1"}}, {Filter: rel.Filter{ObjectID: "1"}, Absent: true}}, Add: tuples("doc:4#owner@user:anne")})
	write("a relation that the schema lacks", authz.WriteRequest{Add: tuples("doc:1#owner@user:bob", "doc:1#editor@user:bob")})
	write("a computed relation", authz.WriteRequest{Add: tuples("doc:1#reader@user:bob")})
	write("a wildcard after a tuple of its shape", authz.WriteRequest{Add: tuples("doc:1#owner@user:bob", "doc:1#owner@user:*")})
	write("a tuple after a wildcard of its shape", authz.WriteRequest{Add: tuples("doc:1#public@user:*", "doc:1#public@user:bob")})
	write("a type that no schema has", authz.WriteRequest{Add: tuples("note:1#owner@user:bob")})
	write("a schema that is not the current one", authz.WriteRequest{Add: tuples("doc:1#owner@user:bob"), SchemaID: first.ID})
	write("a schema that does not exist", authz.WriteRequest{Add: tuples("doc:1#owner@user:bob"), SchemaID: "none"})
	write("attributes", authz.WriteRequest{SetAttributes: attribute("doc", "size", "7.0")})
	write("an attribute removed", authz.WriteRequest{RemoveAttributes: attribute("doc", "size", "ignored")})
	write("an attribute of another type", authz.WriteRequest{SetAttributes: attribute("doc", "size", `"big"`), Add: tuples("doc:5#owner@user:bob")})
	write("an attribute that the schema lacks", authz.WriteRequest{SetAttributes: attribute("doc", "name", "1")})
	write("an attribute of no type", authz.WriteRequest{SetAttributes: attribute("note", "size", "1")})
	write("an attribute of no type in the schema of the write", authz.WriteRequest{SetAttributes: attribute("note", "size", "1"), SchemaID: second.ID})
	write("all at once", authz.WriteRequest{Add: tuples("doc:6#owner@user:bob"), Remove: keys("doc:2#viewer@user:bob"), SetAttributes: attribute("doc", "size", "8"),
		RemoveAttributes: []rel.Attribute{{Object: rel.Object{Type: "doc", ID: "2"}, Name: "size"}},
		RemoveMatching:   []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "doc", ObjectID: "2"}}, {Target: storage.FilterDocuments, DocumentKind: "old"}},
		Documents:        []authz.Document{{Kind: "note", Key: "n", Secondary: []string{"s"}, Body: []byte("text")}}, RemoveDocuments: []authz.DocumentKey{{Kind: "note", Key: "gone"}},
		Secrets: []authz.Document{{Kind: "password", Key: "p", Body: []byte("hidden")}}, RemoveSecrets: []authz.DocumentKey{{Kind: "password", Key: "gone"}}})
	write("a filter alone", authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterAttributes, ObjectType: "doc", Name: "size"}}})
	write("a document alone", authz.WriteRequest{Documents: []authz.Document{{Kind: "note", Key: "n", Body: []byte("new text")}}})
	write("a removal of a document alone", authz.WriteRequest{RemoveDocuments: []authz.DocumentKey{{Kind: "note", Key: "n"}}})
	write("a secret alone", authz.WriteRequest{Secrets: []authz.Document{{Kind: "password", Key: "p", Body: []byte("hidden")}}})
	write("a removal of a secret alone", authz.WriteRequest{RemoveSecrets: []authz.DocumentKey{{Kind: "password", Key: "p"}}})
	write("a tuple that a filter of the write removes", authz.WriteRequest{Add: tuples("doc:6#owner@user:bob"), RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectID: "6"}}}})
	third := writeSchema("the third schema", &schema.Model{Types: append(model.Types[:2:2], schema.TypeDef{Name: "robot"})})
	write("a removal of the second schema", authz.WriteRequest{RemoveSchemas: []string{second.ID}})
	write("a removal of a schema that is gone", authz.WriteRequest{RemoveSchemas: []string{second.ID}})
	token, err := w.queue.RemoveSchema(ctx, "none")
	note("no schema to remove", token, err)
	token, err = w.queue.RemoveSchema(ctx, third.ID)
	note("a removal of the third schema", token, err)
	write("what only the removed schemas admit", authz.WriteRequest{Add: tuples("doc:7#owner@user:bob")})
	write("the model again", authz.WriteRequest{Schemas: []authz.SchemaSource{{Model: model}}, Add: tuples("doc:7#viewer@user:bob")})
	info, _ := w.timeline.Loaded().CurrentSchema("")
	fmt.Fprintln(&out, "the current schema is new:", info.ID != first.ID && info.ID != second.ID && info.ID != third.ID)
	writeSchema("a model that does not compile", &schema.Model{Types: []schema.TypeDef{{Name: ""}}})
	at := w.timeline.Token(w.timeline.Loaded().Head)
	write("after the newest revision", authz.WriteRequest{After: at, Add: tuples("doc:8#owner@user:bob")})
	write("after a revision that is not the newest", authz.WriteRequest{After: at, Add: tuples("doc:9#owner@user:bob")})
	// A clock that goes back does not make commit times go back.
	now = now.Add(-time.Hour)
	write("an hour before", authz.WriteRequest{Add: tuples("doc:9#owner@user:bob")})
	text := strings.ReplaceAll(out.String(), info.ID, "NEW")
	golden.Equal(t, "testdata/writes.txt", strings.ReplaceAll(text, string(at), "AT"))
}

// TestUpdates makes updates that are refused, that panic and that are accepted.
func TestUpdates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	refused := errors.New("refused")
	var accepted []authz.Token
	update := func(r authz.WriteRequest, err error) (authz.Token, error) {
		return w.queue.Update(ctx, &authz.Update{Build: func(head authz.Token) (authz.WriteRequest, error) {
			if head != w.timeline.Token(w.timeline.Loaded().Head) {
				t.Errorf("built on %q, expected the newest revision", head)
			}
			return r, err
		}, Accepted: func(head authz.Token) { accepted = append(accepted, head) }})
	}
	token, err := update(authz.WriteRequest{Add: many("1", 1)}, nil)
	if err != nil || token != w.timeline.Token(w.timeline.Loaded().Head) || len(accepted) != 1 || accepted[0] != token {
		t.Errorf("got token %q and error %v, accepted %q", token, err, accepted)
	}
	for name, c := range map[string]struct {
		request authz.WriteRequest
		err     error
		kind    error
	}{
		"an error of Build":         {authz.WriteRequest{Add: many("2", 1)}, refused, refused},
		"a malformed request":       {authz.WriteRequest{Add: make([]rel.Tuple, 1)}, nil, authz.ErrInvalidName},
		"a tuple that exists":       {authz.WriteRequest{Add: many("1", 1)}, nil, authz.ErrTupleExists},
		"a secret without a key":    {authz.WriteRequest{Secrets: []authz.Document{{Kind: "password", Key: "p"}}}, nil, authz.ErrNoSecretKey},
		"a precondition that fails": {authz.WriteRequest{Preconditions: []authz.Precondition{{Filter: rel.Filter{ObjectID: "1"}, Absent: true}}}, nil, authz.ErrPrecondition},
	} {
		token, err := update(c.request, c.err)
		if token != "" || !errors.Is(err, c.kind) || len(accepted) != 1 || (err == refused) != (c.err != nil) {
			t.Errorf("%s: got token %q and error %v, expected %v", name, token, err, c.kind)
		}
		var e *authz.Error
		if c.err == nil && (!errors.As(err, &e) || e.Store != w.info.ID) {
			t.Errorf("%s: error %v does not name the store", name, err)
		}
	}
	for name, u := range map[string]*authz.Update{
		"Build":    {Build: func(authz.Token) (authz.WriteRequest, error) { panic("in Build") }, Accepted: func(authz.Token) { t.Error("an update is accepted whose Build panics") }},
		"Accepted": {Build: func(authz.Token) (authz.WriteRequest, error) { return authz.WriteRequest{Add: many("3", 1)}, nil }, Accepted: func(authz.Token) { panic("in Accepted") }},
	} {
		func() {
			defer func() {
				if got := recover(); got != "in "+name {
					t.Errorf("%s panics: got %v", name, got)
				}
			}()
			w.queue.Update(ctx, u)
		}()
	}
	w.tuples[many("1", 1)[0].Key()], w.tuples[many("3", 1)[0].Key()], w.revision = many("1", 1)[0], many("3", 1)[0], 3
	w.check("after the updates")
}
