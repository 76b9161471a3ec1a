package onap_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// TestStoredWithoutChecks opens a store whose policies were not checked when they
// were created. A deployed one still decides, and does not permit; another one is
// refused when it is deployed.
func TestStoredWithoutChecks(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(context.Background(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	templates, err := catalog.Preloaded()
	if err != nil {
		t.Fatal(err)
	}
	const policy = `{%q:{"type":"onap.policies.controlloop.guard.common.FrequencyLimiter","type_version":"1.0.0","version":"1.0.0",` +
		`"properties":{"actor":"SO","operation":%[1]q,"timeWindow":1,"timeUnits":"hour","limit":-1}}}`
	template, err := tosca.Parse(fmt.Appendf(nil, `{"topology_template":{"policies":[`+policy+`,`+policy+`]}}`, "deployed", "stored"), false)
	if err != nil {
		t.Fatal(err)
	}
	unchecked := catalog.New(e, catalog.Options{Preload: templates})
	if err := unchecked.AddPolicies(context.Background(), template); err != nil {
		t.Fatal(err)
	}
	if err := unchecked.Deploy(context.Background(), []catalog.ID{{Name: "deployed"}}, "anne"); err != nil {
		t.Fatal(err)
	}

	router, err := door.NewRouter(join(t, e, onap.Options{}).Routes)
	if err != nil {
		t.Fatal(err)
	}
	status, body := ask(t, router, http.MethodPost, "/policy/pdpx/v1/decision", `{"action":"guard","resource":{"guard":{"actor":"SO","operation":"deployed","target":"t"}}}`)
	if status != http.StatusOK || body != `{"status":"Deny"}` {
		t.Errorf("the deployed policy: %d %s", status, body)
	}
	for path, body := range map[string]string{
		"/policy/pap/v1/pdps/policies":          `{"policies":[{"policy-id":"stored"}]}`,
		"/policy/pap/v1/pdps/deployments/batch": `{"groups":[{"name":"defaultGroup","deploymentSubgroups":[{"pdpType":"xacml","action":"POST","policies":[{"name":"stored"}]}]}]}`,
	} {
		if status, answer := ask(t, router, http.MethodPost, path, body); status != http.StatusBadRequest || !strings.Contains(answer, "invalid property limit -1") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
}
