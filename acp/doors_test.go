package acp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga"
)

// TestThroughDoors: what was registered and shared here is answered alike by
// the doors of OpenFGA, AuthZEN and our own, with types as policy/resource, and
// with DIDs and ids that hold colons as they are.
func TestThroughDoors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	engine := must(ostiary.Open(ctx, ostiary.Options{}))(t)
	t.Cleanup(func() { engine.Close() })
	e := open(t, acp.Options{Engine: engine})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	const note, shared = "urn:note:1", "did:example:100%3Ayes"
	must(0, e.Register(ctx, alice, doc(id, note)))(t)
	must(e.Relate(ctx, alice, doc(id, note), "admin", bob))(t)
	must(e.Relate(ctx, alice, doc(id, note), "reader", shared))(t)
	must(e.SetRelationship(ctx, alice, acp.Relationship{Object: doc(id, note), Relation: "parent", Subject: acp.Subject{Resource: "folder", ID: "f"}}))(t)
	s := must(e.Store())(t)
	d := doors{t: t, policy: id, store: s.ID().String(), model: must(s.CurrentSchema(ctx, id))(t).ID,
		zen: must(authzen.New(engine, authzen.Options{Store: s.ID().String()}))(t),
		fga: must(openfga.New(engine, openfga.Options{}))(t), own: must(native.New(engine, native.Options{}))(t)}
	for _, who := range []string{alice, bob, carol, shared} {
		for _, permission := range []string{"read", "write", "owner"} {
			want := permission == "owner" && who == alice
			if permission != "owner" {
				want = must(e.Check(ctx, who, permission, doc(id, note)))(t)
			}
			d.check(who, permission, note, want)
		}
		lists := []any{id + "/note:" + note}
		if !must(e.Check(ctx, who, "read", doc(id, note)))(t) {
			lists = []any{}
		}
		d.want(d.fga, "/stores/"+d.store+"/list-objects", "objects", lists,
			`{"user":"%s/actor:%s","relation":"read","type":"%s/note","authorization_model_id":%q}`, id, who, id, d.model)
	}
	// A relation between objects, and one that only the question brings.
	d.want(d.fga, "/stores/"+d.store+"/check", "allowed", true,
		`{"tuple_key":{"user":"%[1]s/folder:f","relation":"parent","object":"%[1]s/note:%[2]s"},"authorization_model_id":%[3]q}`, id, note, d.model)
	d.want(d.fga, "/stores/"+d.store+"/check", "allowed", true,
		`{"tuple_key":{"user":"%[1]s/actor:%[4]s","relation":"read","object":"%[1]s/note:%[2]s"},"authorization_model_id":%[3]q,
		"contextual_tuples":{"tuple_keys":[{"user":"%[1]s/actor:%[4]s","relation":"reader","object":"%[1]s/note:%[2]s"}]}}`, id, note, d.model, carol)
	// What is read is spelt as it is asked.
	d.want(d.fga, "/stores/"+d.store+"/read", "tuples[0].key.user", id+"/actor:"+bob,
		`{"tuple_key":{"relation":"admin","object":"%[1]s/note:%[2]s"}}`, id, note)
	d.want(d.fga, "/stores/"+d.store+"/list-users", "users[0].object.id", bob,
		`{"object":{"type":"%[1]s/note","id":%[2]q},"relation":"admin","user_filters":[{"type":"%[1]s/actor"}],"authorization_model_id":%[3]q}`, id, note, d.model)
	d.want(d.zen, "/access/v1/search/subject", "results[0].id", bob,
		`{"subject":{"type":"%[1]s/actor"},"resource":{"type":"%[1]s/note","id":%[2]q},"action":{"name":"admin"}}`, id, note)
	d.want(d.own, "/ostiary/v1/stores/"+d.store+"/explain", "allowed", true,
		`{"object":"%[1]s/note:%[2]s","relation":"read","subject":"%[1]s/actor:%[3]s"}`, id, note, bob)
	// What is registered and shared is not changed past the policy's rules.
	refused := fmt.Sprintf("the tuples of namespace '%s' cannot be written through this API: use the API that wrote the namespace's schema", id)
	for _, change := range []string{"writes", "deletes"} {
		d.want(d.fga, "/stores/"+d.store+"/write", "message", refused,
			`{"%[4]s":{"tuple_keys":[{"user":"%[1]s/actor:mallory","relation":"owner","object":"%[1]s/note:%[2]s"}]},"authorization_model_id":%[3]q}`, id, note, d.model, change)
	}
	// Without the policy's model, the error of OpenFGA's door explains how to name it.
	d.want(d.fga, "/stores/"+d.store+"/check", "message",
		fmt.Sprintf("No authorization models found for store '%s' outside of namespaces; name a model by its authorization_model_id: the newest is '%s', of namespace '%s'", d.store, d.model, id),
		`{"tuple_key":{"user":"%[1]s/actor:%[2]s","relation":"read","object":"%[1]s/note:1"}}`, id, bob)
	// A client of another door writes an id that is not plain in its stored form.
	const odd = "a b#\xff"
	must(0, e.Register(ctx, alice, doc(id, odd)))(t)
	must(e.Relate(ctx, alice, doc(id, odd), "reader", bob))(t)
	stored := must(acp.StoredID(odd))(t)
	d.check(bob, "read", stored, true)
	d.check(carol, "read", stored, false)
	d.want(d.fga, "/stores/"+d.store+"/list-objects", "objects", []any{id + "/note:" + stored},
		`{"user":"%s/actor:%s","relation":"reader","type":"%s/note","authorization_model_id":%q}`, id, bob, id, d.model)
	// Nor are they where the store has a model of OpenFGA's besides.
	post(t, d.fga, "/stores/"+d.store+"/authorization-models", `{"schema_version":"1.1","type_definitions":[{"type":"user"}]}`)
	d.want(d.fga, "/stores/"+d.store+"/write", "message", refused,
		`{"deletes":{"tuple_keys":[{"user":"user:1","relation":"owner","object":"%[1]s/note:%[2]s"}]}}`, id, note)
}

type doors struct {
	t                    *testing.T
	policy, store, model string
	zen, fga, own        *door.Door
}

// check asks every door whether a subject has a relation on a note.
func (d *doors) check(who, relation, note string, want bool) {
	d.t.Helper()
	d.want(d.zen, "/access/v1/evaluation", "decision", want,
		`{"subject":{"type":"%[1]s/actor","id":%[2]q},"resource":{"type":"%[1]s/note","id":%[4]q},"action":{"name":"%[3]s"}}`, d.policy, who, relation, note)
	key := fmt.Sprintf(`"tuple_key":{"user":"%[1]s/actor:%[2]s","relation":"%[3]s","object":"%[1]s/note:%[4]s"}`, d.policy, who, relation, note)
	d.want(d.fga, "/stores/"+d.store+"/check", "allowed", want, `{%s,"authorization_model_id":%q}`, key, d.model)
	d.want(d.fga, "/stores/"+d.store+"/batch-check", "result.one.allowed", want,
		`{"checks":[{%s,"correlation_id":"one"}],"authorization_model_id":%q}`, key, d.model)
	d.want(d.own, "/ostiary/v1/stores/"+d.store+"/check", "allowed", want,
		`{"object":"%[1]s/note:%[4]s","relation":"%[3]s","subject":"%[1]s/actor:%[2]s"}`, d.policy, who, relation, note)
}

// want posts a request and holds one member of the answer, "a.b[0].c", against
// what it should be.
func (d *doors) want(to *door.Door, path, member string, want any, format string, args ...any) {
	d.t.Helper()
	body := fmt.Sprintf(format, args...)
	var got any = post(d.t, to, path, body)
	all := got
	for _, name := range strings.FieldsFunc(member, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		switch x := got.(type) {
		case map[string]any:
			got = x[name]
		case []any:
			if got = nil; len(x) > 0 {
				got = x[0]
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		d.t.Errorf("%s %s\n%s: %v, want %v in %v", path, body, member, got, want, all)
	}
}

func post(t *testing.T, d *door.Door, path, body string) map[string]any {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	var params door.Params
	route, _ := must(door.NewRouter(d.Routes))(t).Find(r.Method, path, &params)
	if route == nil {
		t.Fatal("no route", path)
	}
	route.Serve(w, r, params)
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%s: %d %q", path, w.Code, w.Body)
	}
	return out
}
