package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/protocols"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
)

// recordingServer is a server with all doors that records decisions.
type recordingServer struct {
	t      *testing.T
	engine *ostiary.Engine
	http   string
	scrape string // the port of metrics
	rpc    *grpc.ClientConn
}

func startRecording(t *testing.T) *recordingServer {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cli.Conditions(cel.Options{}), SecretKey: &[32]byte{1}, Record: authz.RecordingOptions{Decisions: 1000, Counted: countDecision}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	f := &DoorFlags{}
	f.keystone.Identity.Rounds = password.RoundsMin
	doors, err := AllDoors(e, f)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Metrics: "127.0.0.1:0", Engine: e, Class: classOf, Doors: doors, Log: slog.New(slog.DiscardHandler), DrainTime: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	x := &recordingServer{t: t, engine: e, http: "http://" + srv.Addresses()[0].Addr.String(), scrape: "http://" + srv.Addresses()[2].Addr.String()}
	if x.rpc, err = grpc.NewClient(srv.Addresses()[1].Addr.String(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.rpc.Close() })
	return x
}

// call sends a request and decodes the response.
func (x *recordingServer) call(method, path, media string, body []byte) (out m) {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), method, x.http+path, bytes.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("Content-Type", media)
	resp, text := fetch(x.t, r)
	if resp.StatusCode/100 != 2 {
		x.t.Fatalf("%s %s %s: %d %s", method, path, body, resp.StatusCode, text)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		x.t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
	return out
}

// post sends a request with a JSON body.
func (x *recordingServer) post(path string, in any) m {
	x.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		x.t.Fatal(err)
	}
	return x.call("POST", path, "application/json", body)
}

// recordingWorld is a store of a recordingServer, whose id is also its alias for
// Permify. Under its first schema, user:ed can write doc:1.
type recordingWorld struct {
	*recordingServer
	store string
	first string // the id of the first schema
}

const (
	recordedModel = "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define writer: [user]\n    define banned: [user]\n    define can_write: %s\n"
	// recordedPolicy is an XACML policy that asks the relations of its store.
	recordedPolicy = `function related = "urn:ostiary:xacml:function:related"
policy writers {
  apply denyUnlessPermit
  rule write { condition related(stringOneAndOnly(resourceId), "can_write", stringOneAndOnly(subjectId)) permit }
}`
)

// modelWith returns a model in which a rewrite defines who can write.
func modelWith(rewrite string) m {
	return m{"dialect": "openfga-dsl", "source": fmt.Sprintf(recordedModel, rewrite)}
}

func (x *recordingServer) newWorld() *recordingWorld {
	x.t.Helper()
	w := &recordingWorld{recordingServer: x, store: x.post("/stores", m{"name": "recorded"})["id"].(string)}
	id := must(storage.ParseStoreID(w.store))(x.t)
	alias := func(_ *string, aliases map[string]string) error { aliases["permify"] = w.store; return nil }
	if err := x.engine.UpdateStore(x.t.Context(), id, alias); err != nil {
		x.t.Fatal(err)
	}
	w.first = w.write("writer")
	w.post("/ostiary/v1/stores/"+w.store+"/write", m{"add": []m{{"subject": "user:ed", "relation": "writer", "object": "doc:1"}}})
	return w
}

// write makes a model with a rewrite the current one, and returns its id.
func (w *recordingWorld) write(rewrite string) string {
	w.t.Helper()
	return w.post("/ostiary/v1/stores/"+w.store+"/schemas", modelWith(rewrite))["id"].(string)
}

// whatIf returns the result of a proposal for the recorded decisions, without their
// number and context, and that for a question with the same text.
func (w *recordingWorld) whatIf(proposal m) (recorded, asked []any) {
	w.t.Helper()
	ask := func(name string, questions any) []any {
		in := m{name: questions, "unchanged": true}
		for k, v := range proposal {
			in[k] = v
		}
		items := w.post("/ostiary/v1/stores/"+w.store+"/what-if", in)["items"].([]any)
		for _, item := range items {
			delete(item.(m), "number")
			delete(item.(m), "context") // AuthZEN's is never empty
		}
		return items
	}
	return ask("recorded", m{"minutes": 60}), ask("questions", []m{{"subject": "user:ed", "relation": "can_write", "object": "doc:1"}})
}

// expect fails if the recorded decisions are not all as the question with their text,
// or if its decisions before and after the proposal are others.
func (w *recordingWorld) expect(when string, proposal m, before, after bool) {
	w.t.Helper()
	recorded, asked := w.whatIf(proposal)
	if item := asked[0].(m); item["before"].(m)["allowed"] != before || item["after"].(m)["allowed"] != after {
		w.t.Fatalf("%s: the question is %v", when, item)
	}
	if len(recorded) == 0 {
		w.t.Fatalf("%s: no decision is recorded", when)
	}
	for _, item := range recorded {
		if !reflect.DeepEqual(item, asked[0]) {
			w.t.Errorf("%s: the recorded decision is\n%v\nexpected that of the question:\n%v", when, item, asked[0])
		}
	}
}

// recordedCalls returns a call of each door that records decisions: whether user:ed
// can write doc:1. model is the id of a schema, or "" for the current one.
func (w *recordingWorld) recordedCalls(ctx context.Context, model string) map[string]func() any {
	fga, stores, tenant := openfgav1.NewOpenFGAServiceClient(w.rpc), "/stores/"+w.store, "/v1/tenants/"+w.store
	native, key := "/ostiary/v1/stores/"+w.store, m{"user": "user:ed", "relation": "can_write", "object": "doc:1"}
	question := m{"subject": "user:ed", "relation": "can_write", "object": "doc:1", "schema": model}
	entity, subject := &permifypb.Entity{Type: "doc", Id: "1"}, &permifypb.Subject{Type: "user", Id: "ed"}
	permission := m{"metadata": m{"depth": 20, "schema_version": model}, "entity": m{"type": "doc", "id": "1"}, "subject": m{"type": "user", "id": "ed"}}
	with := func(more m) m {
		out := m{}
		for _, part := range []m{permission, more} {
			for k, v := range part {
				out[k] = v
			}
		}
		return out
	}
	attribute := func(name, value string) m {
		return m{"Attribute": []m{{"AttributeId": "urn:oasis:names:tc:xacml:1.0:" + name, "Value": value}}}
	}
	item := func(list any) m { return list.([]any)[0].(m) }
	calls := map[string]func() any{
		"native check": func() any { return w.post(native+"/check", question)["allowed"] },
		"native batch": func() any { return item(w.post(native+"/batch", m{"questions": []m{question}})["results"])["allowed"] },
		"openfga check": func() any {
			return w.post(stores+"/check", m{"tuple_key": key, "authorization_model_id": model})["allowed"]
		},
		"openfga batch": func() any {
			return w.post(stores+"/batch-check", m{"checks": []m{{"tuple_key": key, "correlation_id": "a"}}, "authorization_model_id": model})["result"].(m)["a"].(m)["allowed"]
		},
		"openfga check over gRPC": func() any {
			return must(fga.Check(ctx, &openfgav1.CheckRequest{StoreId: w.store, AuthorizationModelId: model,
				TupleKey: &openfgav1.CheckRequestTupleKey{User: "user:ed", Relation: "can_write", Object: "doc:1"}}))(w.t).GetAllowed()
		},
		"openfga batch over gRPC": func() any {
			return must(fga.BatchCheck(ctx, &openfgav1.BatchCheckRequest{StoreId: w.store, AuthorizationModelId: model, Checks: []*openfgav1.BatchCheckItem{{CorrelationId: "a",
				TupleKey: &openfgav1.CheckRequestTupleKey{User: "user:ed", Relation: "can_write", Object: "doc:1"}}}}))(w.t).GetResult()["a"].GetAllowed()
		},
		"permify check": func() any {
			return w.post(tenant+"/permissions/check", with(m{"permission": "can_write"}))["can"] == "CHECK_RESULT_ALLOWED"
		},
		"permify bulk check": func() any {
			out := w.post(tenant+"/permissions/bulk-check", m{"metadata": permission["metadata"], "items": []m{{"entity": permission["entity"], "permission": "can_write", "subject": permission["subject"]}}})
			return item(out["results"])["can"] == "CHECK_RESULT_ALLOWED"
		},
		"permify check over gRPC": func() any {
			return must(permifypb.NewPermissionClient(w.rpc).Check(ctx, &permifypb.PermissionCheckRequest{TenantId: w.store,
				Metadata: &permifypb.PermissionCheckRequestMetadata{Depth: 20, SchemaVersion: model}, Entity: entity, Permission: "can_write", Subject: subject}))(w.t).GetCan() == permifypb.CheckResult_CHECK_RESULT_ALLOWED
		},
		"permify bulk check over gRPC": func() any {
			return must(permifypb.NewPermissionClient(w.rpc).BulkCheck(ctx, &permifypb.PermissionBulkCheckRequest{TenantId: w.store,
				Metadata: &permifypb.PermissionCheckRequestMetadata{Depth: 20, SchemaVersion: model},
				Items:    []*permifypb.PermissionBulkCheckRequestItem{{Entity: entity, Permission: "can_write", Subject: subject}}}))(w.t).GetResults()[0].GetCan() == permifypb.CheckResult_CHECK_RESULT_ALLOWED
		},
		"permify subject permission": func() any {
			return w.post(tenant+"/permissions/subject-permission", with(m{"metadata": m{"depth": 20, "schema_version": model, "only_permission": true}}))["results"].(m)["can_write"] == "CHECK_RESULT_ALLOWED"
		},
	}
	if model != "" { // AuthZEN and XACML cannot name a schema
		return calls
	}
	evaluation := m{"subject": m{"type": "user", "id": "ed"}, "action": m{"name": "can_write"}, "resource": m{"type": "doc", "id": "1"}}
	calls["authzen evaluation"] = func() any { return w.post("/authzen/"+w.store+"/access/v1/evaluation", evaluation)["decision"] }
	calls["authzen evaluations"] = func() any {
		return item(w.post("/authzen/"+w.store+"/access/v1/evaluations", m{"evaluations": []m{evaluation}})["evaluations"])["decision"]
	}
	calls["xacml"] = func() any {
		w.call("PUT", stores+"/xacml/v3/root", "text/plain", []byte(recordedPolicy))
		return item(w.post(stores+"/xacml/v3/pdp", m{"Request": m{"AccessSubject": attribute("subject:subject-id", "user:ed"),
			"Resource": attribute("resource:resource-id", "doc:1")}})["Response"])["Decision"] == "Permit"
	}
	return calls
}

// TestRecordedThroughEveryDoor records a decision through each door. A what-if under
// another model must have the same result for it as for a question with the same
// text, also after the current model has changed.
func TestRecordedThroughEveryDoor(t *testing.T) {
	t.Parallel()
	x := startRecording(t)
	const allowing, denying = "writer", "writer and banned"
	for name := range (&recordingWorld{recordingServer: x}).recordedCalls(t.Context(), "") {
		t.Run(name, func(t *testing.T) {
			here := *x
			here.t = t
			w := here.newWorld()
			if got := w.recordedCalls(t.Context(), "")[name](); got != true {
				t.Fatalf("the decision is %v, expected that it is allowed", got)
			}
			w.expect("under a proposed model", m{"proposed": modelWith(denying)}, true, false)
			second := w.write(denying)
			w.expect("under the former model", m{"proposed": m{"schema": w.first}}, false, true)
			w.expect("with a proposed tuple", m{"changes": m{"add": []m{{"subject": "user:ed", "relation": "banned", "object": "doc:1"}}}}, false, true)
			w.write(allowing)
			w.expect("under another stored model", m{"proposed": m{"schema": second}}, true, false)
			w.expect("under a proposed model, after another model", m{"proposed": modelWith(denying)}, true, false)
		})
	}
}

// TestRecordedWithSchema records a decision through each door in which a request can
// name a schema. A what-if repeats it under that schema, and under the proposed one.
func TestRecordedWithSchema(t *testing.T) {
	t.Parallel()
	x := startRecording(t)
	for name := range (&recordingWorld{recordingServer: x}).recordedCalls(t.Context(), "named") {
		t.Run(name, func(t *testing.T) {
			here := *x
			here.t = t
			w := here.newWorld()
			second := w.write("writer and banned")
			if got := w.recordedCalls(t.Context(), w.first)[name](); got != true {
				t.Fatalf("the decision is %v, expected that it is allowed", got)
			}
			for when, c := range map[string]struct {
				proposal m
				after    bool
			}{
				"nothing is proposed": {m{}, true},
				"a proposed model":    {m{"proposed": modelWith("banned")}, false},
				"a stored model":      {m{"proposed": m{"schema": second}}, false},
				"the same model":      {m{"proposed": m{"schema": w.first}}, true},
			} {
				recorded, _ := w.whatIf(c.proposal)
				for _, item := range recorded {
					if before, after := item.(m)["before"].(m)["allowed"], item.(m)["after"].(m)["allowed"]; before != true || after != c.after {
						t.Errorf("%s: %v before and %v after, expected true and %v", when, before, after, c.after)
					}
				}
				if len(recorded) == 0 {
					t.Errorf("%s: no decision is recorded", when)
				}
			}
		})
	}
}

// TestRecordedByRecords records decisions of the two stores that are no store of
// relations: of document access control, also through OpenFGA's door, and of the
// Identity API. Their types have namespaces, or a question has several holders.
func TestRecordedByRecords(t *testing.T) {
	t.Parallel()
	x := startRecording(t)
	ctx := t.Context()
	control := must(acp.Open(ctx, acp.Options{Engine: x.engine}))(t)
	const alice, bob = "did:example:alice", "did:example:bob"
	policy := must(control.AddPolicy(ctx, alice, "name: p\nresources:\n- name: note\n  relations:\n  - {name: reader, types: [actor]}\n  permissions:\n  - {name: read, expr: reader}\n"))(t)
	note := acp.Object{Policy: policy, Resource: "note", ID: "1"}
	must(0, control.Register(ctx, alice, note))(t)
	must(control.Relate(ctx, alice, note, "reader", bob))(t)
	if !must(control.Check(ctx, bob, "read", note))(t) {
		t.Error("bob cannot read the note")
	}
	documents := must(control.Store())(t)
	x.recordedChange(documents, "read")
	model := must(documents.CurrentSchema(ctx, policy))(t).ID
	x.post("/stores/"+documents.ID().String()+"/check", m{"authorization_model_id": model,
		"tuple_key": m{"user": policy + "/actor:" + bob, "relation": "read", "object": policy + "/note:1"}})
	x.recordedChange(documents, "read")

	own := must(protocols.BootstrapIdentity(ctx, x.engine, identity.BootstrapOptions{Password: "secret"}, settings.Deployment{Rounds: password.RoundsMin}))(t)
	x.post("/v3/auth/tokens", m{"auth": m{"identity": m{"methods": []string{"password"}, "password": m{"user": m{"name": "admin", "domain": m{"id": "default"}, "password": "secret"}}},
		"scope": m{"project": m{"name": "admin", "domain": m{"id": "default"}}}}})
	x.recordedChange(own, "subject")
}

// recordedChange proposes for each recorded decision about a relation of a store that
// no subject is admitted to the relation. Those that were allowed must be lost, as is
// a question with the same text.
func (x *recordingServer) recordedChange(s *ostiary.Store, relation string) {
	x.t.Helper()
	ctx, changed := x.t.Context(), 0
	for _, d := range s.RecordedDecisions(ctx, 0, 0) {
		q := d.Question
		if q.Relation != relation || d.Decision != expr.True {
			continue
		}
		namespace, typ, ok := strings.Cut(q.Object.Type, "/")
		if !ok {
			namespace, typ = "", q.Object.Type
		}
		source := must(s.Schema(ctx, must(s.CurrentSchema(ctx, namespace))(x.t).ID))(x.t)
		model := *source.Model
		model.Types = slices.Clone(model.Types)
		for i := range model.Types {
			def := &model.Types[i]
			def.Relations = slices.Clone(def.Relations)
			for j := range def.Relations {
				if def.Relations[j].Name == relation {
					def.Relations[j].Rewrite, def.Relations[j].Subjects = schema.Direct(), []schema.SubjectType{{Type: typ}}
				}
			}
		}
		text := authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject}
		got := must(s.WhatIf(ctx, authz.WhatIfRequest{Questions: []authz.CheckRequest{q, text}, Model: &model}))(x.t)
		for i, item := range got.Items {
			if item.Before.Decision != expr.True || item.After.Decision != expr.False || item.After.Err != nil {
				x.t.Errorf("%s, question %d: %v before and %v after (%v)", q.Object, i, item.Before, item.After, item.After.Err)
			}
		}
		changed++
	}
	if changed == 0 {
		x.t.Errorf("no decision about %s is recorded", relation)
	}
}

// must returns a function that returns v, and fails the test if err is not nil.
func must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
