package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// drillRequest is a request of the drill: to write through a door, or to ask it.
type drillRequest struct{ method, path, kind, body string }

// drillWrites fill the stores of the doors, drillChanges change what drillQuestions ask them, so that a restored server
// can be compared with the lost one. [nodes.prepare] and keystone bootstrap fill the others.
var (
	drillWrites = []drillRequest{
		{"POST", "/v1/tenants/create", "application/json", `{"id":"drill","name":"drill"}`},
		{"POST", "/v1/tenants/drill/schemas/write", "application/json", `{"schema":"entity user {}\nentity document {\n  relation viewer @user\n  attribute public boolean\n  permission view = viewer or public\n}\n"}`},
		{"POST", "/v1/tenants/drill/data/write", "application/json", `{"metadata":{},"tuples":[{"entity":{"type":"document","id":"1"},"relation":"viewer","subject":{"type":"user","id":"anne"}}],"attributes":[{"entity":{"type":"document","id":"2"},"attribute":"public","value":{"@type":"type.googleapis.com/base.v1.BooleanValue","data":true}}]}`},
		{"PUT", "/xacml/v3/root", "text/plain", "attribute role { category = subjectCat id = \"role\" type = string }\npolicy ward {\n  apply denyUnlessPermit\n  rule \"doctors\" {\n    target clause role == \"doctor\"\n    permit\n  }\n}\n"},
		{"POST", "/policy/api/v1/policies", "application/json", `{"tosca_definitions_version":"tosca_simple_yaml_1_1_0","topology_template":{"policies":[{"demo.limit":{"type":"onap.policies.controlloop.guard.common.Blacklist","type_version":"1.0.0","version":"1.0.0","properties":{"actor":"SO","operation":"scaleOut","blacklist":["vnf-1"]}}}]}}`},
		{"POST", "/policy/pap/v1/pdps/policies", "application/json", `{"policies":[{"policy-id":"demo.limit"}]}`},
	}
	drillChanges = []drillRequest{ // each changes an answer
		{"POST", "/v1/tenants/drill/data/delete", "application/json", `{"tuple_filter":{"entity":{"type":"document","ids":["1"]}},"attribute_filter":{"entity":{"type":"document","ids":["2"]},"attributes":["public"]}}`},
		{"PUT", "/xacml/v3/root", "text/plain", "policy ward {\n  apply permitUnlessDeny\n  rule \"none\" { permit }\n}\n"},
		{"DELETE", "/policy/pap/v1/pdps/policies/demo.limit", "", ""},
	}
	drillQuestions = []drillRequest{
		permifyCheck("1", "anne"), permifyCheck("1", "bob"), permifyCheck("2", "bob"),
		xacmlRequest("doctor"), xacmlRequest("nurse"),
		onapDecision("scaleOut"), onapDecision("restart"),
		{"GET", "/policy/api/v1/policies/demo.limit/versions/1.0.0", "", ""},
	}
)

func permifyCheck(id, user string) drillRequest {
	return drillRequest{"POST", "/v1/tenants/drill/permissions/check", "application/json",
		fmt.Sprintf(`{"metadata":{"depth":20},"entity":{"type":"document","id":%q},"permission":"view","subject":{"type":"user","id":%q}}`, id, user)}
}

func xacmlRequest(role string) drillRequest {
	return drillRequest{"POST", "/xacml/v3/pdp", "application/xacml+json", fmt.Sprintf(`{"Request":{"AccessSubject":{"Attribute":[{"AttributeId":"role","Value":%q}]}}}`, role)}
}

func onapDecision(operation string) drillRequest {
	return drillRequest{"POST", "/policy/pdpx/v1/decision", "application/json",
		fmt.Sprintf(`{"ONAPName":"Policy","ONAPComponent":"drools-pdp","ONAPInstance":"1","action":"guard","resource":{"guard":{"actor":"SO","operation":%q,"target":"vnf-1","clname":"loop-1"}}}`, operation)}
}

// sendDrill sends the requests to a server, and returns a line for each answer.
// key is "" for a server without keys.
func sendDrill(server, key string, all []drillRequest) (answers string, err error) {
	var out strings.Builder
	for _, r := range all {
		request, err := http.NewRequest(r.method, server+r.path, strings.NewReader(r.body))
		if err != nil {
			return "", err
		}
		request.Header.Set("Content-Type", r.kind)
		if key != "" {
			request.Header.Set("Authorization", "Bearer "+key)
		}
		request.Header.Set("Accept", "application/json, application/xacml+json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return "", err
		}
		if response.StatusCode/100 != 2 {
			return "", fmt.Errorf("%s %s: %s: %s", r.method, r.path, response.Status, text)
		}
		fmt.Fprintf(&out, "%s %s\n", r.path, strings.Join(strings.Fields(string(text)), " "))
	}
	return out.String(), nil
}

// drill is the command of scripts "drill write URL", "drill change URL" and "drill ask URL", which prints the answers.
func drill(ts *testscript.TestScript, neg bool, args []string) {
	all := map[string][]drillRequest{"write": drillWrites, "change": drillChanges, "ask": drillQuestions}[args[0]]
	answers, err := sendDrill(args[1], ts.Getenv("OSTIARY_TOKEN"), all)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), answers)
}
