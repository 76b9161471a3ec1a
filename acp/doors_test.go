package acp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/openfga"
)

// TestThroughDoors: what was registered and shared here is answered alike by
// the doors of AuthZEN and OpenFGA, with types as policy/resource.
func TestThroughDoors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	engine := must(ostiary.Open(ctx, ostiary.Options{}))(t)
	t.Cleanup(func() { engine.Close() })
	e := open(t, acp.Options{Engine: engine})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	must(0, e.Register(ctx, alice, doc(id, "1")))(t)
	must(e.Relate(ctx, alice, doc(id, "1"), "admin", bob))(t)
	must(e.SetRelationship(ctx, alice, acp.Relationship{Object: doc(id, "1"), Relation: "parent", Subject: acp.Subject{Resource: "folder", ID: "f"}}))(t)
	s := must(e.Store())(t)
	store, model := s.ID().String(), must(s.CurrentSchema(ctx, id))(t).ID
	zen := must(authzen.New(engine, authzen.Options{Store: store}))(t)
	fga := must(openfga.New(engine, openfga.Options{}))(t)
	for _, who := range []string{alice, bob, carol} {
		for _, permission := range []string{"read", "write"} {
			want := must(e.Check(ctx, who, permission, doc(id, "1")))(t)
			got := post(t, zen, "/access/v1/evaluation", fmt.Sprintf(
				`{"subject":{"type":"%[1]s/actor","id":"%[2]s"},"resource":{"type":"%[1]s/note","id":"1"},"action":{"name":"%[3]s"}}`, id, who, permission))
			if got["decision"] != want {
				t.Errorf("AuthZEN, %s %s: %v, want %v", who, permission, got, want)
			}
		}
	}
	// OpenFGA's ids hold no colon, so a DID cannot be written there; what is
	// between objects can, by the policy's own model.
	for folder, want := range map[string]bool{"f": true, "g": false} {
		got := post(t, fga, "/stores/"+store+"/check", fmt.Sprintf(
			`{"tuple_key":{"user":"%[1]s/folder:%[2]s","relation":"parent","object":"%[1]s/note:1"},"authorization_model_id":%[3]q}`, id, folder, model))
		if got["allowed"] != want {
			t.Errorf("OpenFGA, folder %s: %v, want %v", folder, got, want)
		}
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
