package onap_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
)

// refusedRequests are a valid request for each call that reads a body, or several
// for a call with different forms.
var refusedRequests = [][2]string{
	{"POST /policy/api/v1/policytypes", `{"tosca_definitions_version":"tosca_simple_yaml_1_1_0","data_types":{"my.Data":{"derived_from":"tosca.datatypes.Root","version":"1.0.0","properties":{"a":{"type":"string","required":true}}}},` +
		`"policy_types":{"my.Type":{"derived_from":"tosca.policies.Root","version":"1.0.0","properties":{"p":{"type":"map","description":"d","required":false,"entry_schema":{"type":"my.Data"}}}}}}`},
	{"POST /policy/api/v1/policies", `{"tosca_definitions_version":"tosca_simple_yaml_1_1_0","topology_template":{"policies":[{"m":{"type":"onap.policies.monitoring.tcagen2","type_version":"1.0.0","version":"1.0.0","properties":{"a":1},"description":"d","metadata":{"policy-id":"m"}}}]}}`},
	{"POST /policy/api/v1/nodetemplates", `{"tosca_definitions_version":"tosca_simple_yaml_1_1_0","topology_template":{"node_templates":{"t":{"type":"org.onap.nodetypes.policy","type_version":"1.0.0","version":"1.0.0","name":"t","properties":{"a":1}}}}}`},
	{"POST /policy/pap/v1/pdps/policies", `{"policies":[{"policy-id":"black","policy-version":"1.0.0"}]}`},
	{"POST /policy/pap/v1/pdps/groups/batch", `{"groups":[{"name":"second","description":"d","pdpGroupState":"ACTIVE","properties":{"a":"b"},"pdpSubgroups":[{"pdpType":"xacml","desiredInstanceCount":1,"supportedPolicyTypes":[{"name":"onap.policies.native.Apex","version":"1.0.0"}],"policies":[]}]}]}`},
	{"POST /policy/pap/v1/pdps/deployments/batch", `{"groups":[{"name":"defaultGroup","deploymentSubgroups":[{"pdpType":"xacml","action":"POST","policies":[{"name":"black","version":"1.0.0"}]}]}]}`},
	{"POST /policy/pdpx/v1/operations", `{"id":"1","closedLoopName":"c","requestId":"r","subrequestId":"s","actor":"SO","operation":"x","target":"t","outcome":"Success","message":"m","starttime":"2026-03-04T09:00:00Z","endtime":"2026-03-04T09:00:05Z"}`},
	{"POST /policy/pdpx/v1/decision", `{"ONAPName":"Policy","ONAPComponent":"c","ONAPInstance":"i","requestId":"r","context":{"a":1},"action":"guard","currentTime":"10:00:00Z","currentDate":"2026-03-04","currentDateTime":"2026-03-04T10:00:00Z","timeZone":"UTC",` +
		`"resource":{"guard":{"actor":"SO","operation":"x","target":"t","clname":"c"}}}`},
	{"POST /policy/pdpx/v1/decision", `{"ONAPName":"DCAE","ONAPComponent":"c","ONAPInstance":"i","action":"configure","resource":{"policy-id":"mon"}}`},
	{"POST /policy/pdpx/v1/xacml", `{"Request":{"ReturnPolicyIdList":true,"AccessSubject":{"Attribute":[{"AttributeId":"a","Value":"b"}]},"Action":{"Attribute":[{"AttributeId":"a","Value":"b","DataType":"string"}]}}}`},
}

// TestRefused sends variants of valid requests and compares the outcomes with
// testdata/refused.txt.
func TestRefused(t *testing.T) {
	t.Parallel()
	random := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
	doortest.Variants{File: "testdata/refused.txt", Requests: refusedRequests, Open: func(t *testing.T, call string) func([]byte) string {
		d := open(t, onap.Options{})
		router, err := door.NewRouter(d.Routes)
		if err != nil {
			t.Fatal(err)
		}
		send := func(call, body string) *httptest.ResponseRecorder {
			method, path, _ := strings.Cut(call, " ")
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			if strings.HasSuffix(path, "/xacml") {
				r.Header.Set("Content-Type", "application/xacml+json")
			}
			var p door.Params
			route, _ := router.Find(method, path, &p)
			if route == nil {
				t.Fatalf("no route for %s", call)
			}
			w := httptest.NewRecorder()
			route.Serve(w, r, p)
			return w
		}
		for _, prepared := range [][2]string{
			{"POST /policy/api/v1/policies", `{"tosca_definitions_version":"tosca_simple_yaml_1_1_0","topology_template":{"policies":[{"mon":{"type":"onap.policies.monitoring.tcagen2","type_version":"1.0.0","version":"1.0.0","properties":{"x":1}}},` +
				`{"black":{"type":"onap.policies.controlloop.guard.common.Blacklist","type_version":"1.0.0","version":"1.0.0","properties":{"actor":"SO","operation":"x","target":"t","blacklist":["v"]}}}]}}`},
			{"POST /policy/pap/v1/pdps/policies", `{"policies":[{"policy-id":"mon"}]}`},
		} {
			if w := send(prepared[0], prepared[1]); w.Code/100 != 2 {
				t.Fatalf("%s: %d %s", prepared[0], w.Code, w.Body)
			}
		}
		return func(body []byte) string {
			w := send(call, string(body))
			var compact strings.Builder
			var value any
			if json.Unmarshal(w.Body.Bytes(), &value) == nil {
				text, _ := json.Marshal(value) // it was just decoded
				compact.Write(text)
			} else {
				compact.WriteString(w.Body.String())
			}
			text := random.ReplaceAllString(compact.String(), "<uuid>")
			return fmt.Sprintf("%d %s", w.Code, text[:min(len(text), 160)])
		}
	}}.Run(t)
}
