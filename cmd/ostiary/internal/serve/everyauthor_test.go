package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// originLog is a driver that keeps the origins of the entries that it gets.
type originLog struct {
	storage.Driver
	mu      sync.Mutex
	origins []storage.Origin
}

func (d *originLog) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	d.mu.Lock()
	for i := range entries {
		d.origins = append(d.origins, entries[i].Origin)
	}
	d.mu.Unlock()
	return d.Driver.Append(ctx, id, after, entries, sealed)
}

// take returns the origins since the call before.
func (d *originLog) take() []storage.Origin {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.origins
	d.origins = nil
	return out
}

// writingRoute is a request that writes. in is a value that is sent as JSON, or the
// text of an XML document.
type writingRoute struct {
	door, method, path string
	in                 any
}

const policyXML = `<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="a" Version="1.0" RuleCombiningAlgId="urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-unless-permit"><Target/><Rule RuleId="r" Effect="Permit"></Rule></Policy>`

// writingRoutes returns a request to each writing route that a door has. They depend on
// one another. x.id is an OpenFGA store, and x was made ready with bootstrap or has keys.
func writingRoutes(x *everyDoor) []writingRoute {
	fga := "/stores/" + x.id
	native := "/ostiary/v1/stores/" + x.id
	tuple := m{"user": "user:anne", "relation": "viewer", "object": "doc:1"}
	nativeTuple := m{"subject": "user:bob", "relation": "viewer", "object": "doc:1"}
	const source = "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user]\n"
	model := m{"schema_version": "1.1", "type_definitions": []m{{"type": "user"}, {"type": "doc", "relations": m{"viewer": m{"this": m{}}},
		"metadata": m{"relations": m{"viewer": m{"directly_related_user_types": []m{{"type": "user"}}}}}}}}
	permify := "/v1/tenants/t1"
	return []writingRoute{
		{"openfga", "POST", fga + "/authorization-models", model},
		{"openfga", "POST", fga + "/write", m{"writes": m{"tuple_keys": []m{tuple}}}},
		{"openfga", "POST", fga + "/write", m{"deletes": m{"tuple_keys": []m{tuple}}}},
		{"openfga", "PUT", fga + "/assertions/SCHEMA", m{"assertions": []m{{"tuple_key": tuple, "expectation": true}}}},
		{"native", "POST", native + "/schemas", m{"dialect": "openfga-dsl", "source": source}},
		{"native", "POST", native + "/write", m{"add": []m{nativeTuple}}},
		{"native", "POST", native + "/import", m{"tuple": m{"subject": "user:carl", "relation": "viewer", "object": "doc:1"}}},
		{"native", "DELETE", native + "/schemas/SCHEMA", nil},
		{"native", "PUT", native + "/limits", m{"requests": m{"per_second": 100_000}}},
		{"native", "POST", "/ostiary/v1/keys", m{"name": "walked", "stores": []string{"*"}, "rights": []string{"read"}}},
		{"native", "POST", "/ostiary/v1/keys/walked/rotate", m{}},
		{"native", "PUT", "/ostiary/v1/keys/walked/limits", m{"requests": m{"per_second": 100}}},
		{"native", "DELETE", "/ostiary/v1/keys/walked", nil},
		{"permify", "POST", permify + "/schemas/write", m{"schema": "entity user {}\nentity doc {\n  relation viewer @user\n  attribute open boolean\n}"}},
		{"permify", "PATCH", permify + "/schemas/partial-write", m{"metadata": m{}, "partials": m{"doc": m{"write": []string{"relation owner @user"}}}}},
		{"permify", "POST", permify + "/data/write", m{"metadata": m{}, "tuples": []m{{"entity": m{"type": "doc", "id": "1"}, "relation": "viewer", "subject": m{"type": "user", "id": "a"}}}}},
		{"permify", "POST", permify + "/relationships/write", m{"metadata": m{}, "tuples": []m{{"entity": m{"type": "doc", "id": "2"}, "relation": "viewer", "subject": m{"type": "user", "id": "a"}}}}},
		{"permify", "POST", permify + "/bundle/write", m{"bundles": []m{{"name": "b", "arguments": []string{"d"}, "operations": []m{{"relationships_write": []string{"doc:{{.d}}#viewer@user:b"}}}}}}},
		{"permify", "POST", permify + "/data/run-bundle", m{"name": "b", "arguments": m{"d": "9"}}},
		{"permify", "POST", permify + "/bundle/delete", m{"name": "b"}},
		{"permify", "POST", permify + "/relationships/delete", m{"filter": m{"entity": m{"type": "doc", "ids": []string{"2"}}}}},
		{"permify", "POST", permify + "/data/delete", m{"tuple_filter": m{"entity": m{"type": "doc", "ids": []string{"1"}}}, "attribute_filter": m{}}},
		{"xacml", "POST", "/xacml/v3/domains", m{"name": "d", "alias": "d", "relations": x.id}},
		{"xacml", "PUT", "/stores/d/xacml/v3/policies/a", policyXML},
		{"xacml", "PUT", "/stores/d/xacml/v3/root", strings.ReplaceAll(policyXML, `"a"`, `"root"`)},
		{"xacml", "DELETE", "/stores/d/xacml/v3/policies/a", nil},
		{"xacml", "POST", "/stores/d/xacml/v3/policies", m{"put": m{"a": m{"language": "xml", "text": policyXML}}}},
		{"xacml", "DELETE", "/stores/d/xacml/v3/policies", nil},
		{"onap-api", "POST", "/policy/api/v1/policies", m{"tosca_definitions_version": "tosca_simple_yaml_1_1_0", "topology_template": m{"policies": []m{{"p": m{"type": "onap.policies.monitoring.tcagen2", "type_version": "1.0.0", "version": "1.0.0", "properties": m{}}}}}}},
		{"onap-pap", "POST", "/policy/pap/v1/pdps/policies", m{"policies": []m{{"policy-id": "p"}}}},
		{"onap-pap", "DELETE", "/policy/pap/v1/pdps/policies/p", nil},
		{"onap-pap", "POST", "/policy/pap/v1/pdps/deployments/batch", m{"groups": []m{{"name": "defaultGroup", "deploymentSubgroups": []m{{"pdpType": "xacml", "action": "POST", "policies": []m{{"name": "p", "version": "1.0.0"}}}}}}}},
		{"onap-pap", "DELETE", "/policy/pap/v1/pdps/policies/p/versions/1.0.0", nil},
		{"onap-api", "DELETE", "/policy/api/v1/policies/p/versions/1.0.0", nil},
		{"onap-pdp", "POST", "/policy/pdpx/v1/operations", m{"closedLoopName": "l", "actor": "a", "operation": "o", "target": "t", "outcome": "Success", "endtime": "2026-03-04T10:00:00Z"}},
		{"onap-api", "POST", "/policy/api/v1/policytypes", m{"tosca_definitions_version": "tosca_simple_yaml_1_1_0", "policy_types": m{"onap.policies.Test": m{"derived_from": "tosca.policies.Root", "version": "1.0.0"}}}},
		{"onap-pap", "POST", "/policy/pap/v1/pdps/groups/batch", m{"groups": []m{{"name": "g", "pdpGroupState": "PASSIVE", "pdpSubgroups": []m{{"pdpType": "xacml", "desiredInstanceCount": 1, "supportedPolicyTypes": []m{{"name": "onap.policies.Test", "version": "1.0.0"}}, "policies": []m{}}}}}}},
		{"onap-pap", "PUT", "/policy/pap/v1/pdps/groups/g?state=ACTIVE", nil},
		{"onap-pap", "PUT", "/policy/pap/v1/pdps/groups/g?state=PASSIVE", nil},
		{"onap-pap", "DELETE", "/policy/pap/v1/pdps/groups/g", nil},
		{"onap-api", "POST", "/policy/api/v1/nodetemplates", m{"tosca_definitions_version": "tosca_simple_yaml_1_1_0", "node_types": m{"demo.Node": m{"derived_from": "tosca.nodetypes.Root", "version": "1.0.0"}},
			"topology_template": m{"node_templates": m{"n": m{"type": "demo.Node", "type_version": "1.0.0", "version": "1.0.0"}}}}},
		{"onap-api", "PUT", "/policy/api/v1/nodetemplates", m{"topology_template": m{"node_templates": m{"n": m{"type": "demo.Node", "type_version": "1.0.0", "version": "1.0.0", "properties": m{"a": 2}}}}}},
		{"onap-api", "DELETE", "/policy/api/v1/nodetemplates/n/versions/1.0.0", nil},
		{"onap-api", "DELETE", "/policy/api/v1/policytypes/onap.policies.Test/versions/1.0.0", nil},
		{"keystone", "POST", "/v3/projects", m{"project": m{"name": "p"}}},
		{"keystone", "POST", "/v3/users", m{"user": m{"name": "u", "password": "secret"}}},
		{"keystone", "PATCH", "/v3/users/" + x.user, m{"user": m{"description": "x"}}},
		{"keystone", "POST", "/v3/credentials", m{"credential": m{"type": "cert", "blob": "{}", "user_id": x.user}}},
		{"keystone", "POST", "/v3/users/" + x.user + "/password", m{"user": m{"original_password": "secret", "password": "another"}}},
	}
}

// request returns the request to a route. schema is the id of the newest schema, which
// replaces SCHEMA in the path.
func (r *writingRoute) request(x *everyDoor, schema string) *http.Request {
	x.t.Helper()
	text, err := json.Marshal(r.in)
	if err != nil {
		x.t.Fatal(err)
	}
	raw, xml := r.in.(string)
	if xml {
		text = []byte(raw)
	}
	path := strings.ReplaceAll(r.path, "SCHEMA", schema)
	imports := strings.HasSuffix(path, "/import")
	if imports {
		text = append(text, "\n{\"end\":{\"tuples\":1,\"attributes\":0}}\n"...)
	}
	req := httptest.NewRequest(r.method, path, bytes.NewReader(text))
	switch {
	case xml:
		req.Header.Set("Content-Type", "application/xml")
	case imports:
		req.Header.Set("Content-Type", "application/x-ndjson")
	default:
		req.Header.Set("Content-Type", "application/json")
	}
	if !strings.HasSuffix(path, "/password") { // which the old password authenticates
		req.Header.Set("X-Auth-Token", x.identity)
	}
	return req
}

// schemaOf returns the id of a schema in a response, or old.
func schemaOf(path string, body []byte, old string) string {
	var out struct {
		Model string `json:"authorization_model_id"`
	}
	if json.Unmarshal(body, &out) == nil && strings.HasSuffix(path, "/authorization-models") {
		return out.Model
	}
	return old
}

// TestEveryDoorNamesTheCaller sends a request to each writing route that a door has,
// as the server does, and finds the caller and the reason in each entry that the
// request made. In a door that authenticates its callers, the caller is the user.
func TestEveryDoorNamesTheCaller(t *testing.T) {
	t.Parallel()
	log := &originLog{Driver: memory.New()}
	t.Cleanup(func() { log.Driver.Close() })
	x := openEveryDoorOn(t, log)
	x.bootstrap()
	for _, o := range log.take() {
		if o.Caller != storage.CallerBootstrap && o.Caller != storage.CallerLibrary {
			t.Errorf("an entry of the bootstrap has the caller %q", o.Caller)
		}
	}
	x.id = x.call("openfga", "POST", "/stores", m{"name": "one"})["id"].(string)
	var schema string
	kinds, sent := readRouteKinds(t), map[string]bool{}
	for _, r := range writingRoutes(x) {
		author := &authz.Author{Name: "walker", Reason: "ticket 7"}
		req := r.request(x, schema)
		req = req.WithContext(authz.WithAuthor(req.Context(), author))
		path := req.URL.Path
		var p door.Params
		route, _ := x.ports[r.door].Find(r.method, req.URL.EscapedPath(), &p)
		if route == nil {
			t.Errorf("%s has no %s %s", r.door, r.method, path)
			continue
		}
		sent[r.door+" "+route.Name] = true
		log.take()
		rec := httptest.NewRecorder()
		route.Serve(rec, req, p)
		if rec.Code/100 != 2 {
			t.Errorf("%s %s: %d %s", r.method, path, rec.Code, rec.Body)
		}
		want := storage.Origin{Caller: "walker", Reason: "ticket 7"}
		if r.door == "keystone" {
			want.Caller = x.user
		}
		origins := log.take()
		if len(origins) == 0 {
			t.Errorf("%s %s made no entry", r.method, path)
		}
		if at := slices.IndexFunc(origins, func(o storage.Origin) bool { return o != want }); at >= 0 {
			t.Errorf("%s %s: entry %d of %d has the origin %+v, want %+v", r.method, path, at, len(origins), origins[at], want)
		}
		if (len(origins) > 0) != (author.Revision() > 0) {
			t.Errorf("%s %s: %d entries, but the author notes revision %d", r.method, path, len(origins), author.Revision())
		}
		schema = schemaOf(path, rec.Body.Bytes(), schema)
	}
	for key, kind := range kinds {
		if (kind == routeWrites) != sent[key] {
			t.Errorf("%s is %q in routes.kinds, but a request to it was sent: %v", key, kind, sent[key])
		}
	}
}
