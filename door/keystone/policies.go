package keystone

import (
	"net/http"
	"slices"

	"github.com/ostiary/ostiary/internal/identity"
)

// policies are texts that other services read. They are not the rules of this
// service.
var policies = &resource{
	kind: identity.Policy, singular: "policy", plural: "policies", filters: []string{"type"},
	fields: []field{{name: "blob", required: true}, {name: "type", required: true, max: 255}},
	target: func(target, *identity.Record) {},
	show: func(o *object, r *identity.Record) {
		o.text("id", r.ID)
		o.members(r.Members)
	},
}

// policyRoutes returns the routes of OS-ENDPOINT-POLICY.
func policyRoutes() []route {
	of := func(path, name, rule string, ends ...identity.Kind) []route {
		a := &association{
			kind: identity.PolicyAssociation, path: "/policies/{id}/OS-ENDPOINT-POLICY" + path, name: name,
			create: "create_policy_association_for_" + rule, check: "check_policy_association_for_" + rule, remove: "delete_policy_association_for_" + rule,
			ends: append([]identity.Kind{identity.Policy}, ends...), missing: "Could not find policy association.", quiet: true,
		}
		return a.routes()
	}
	return slices.Concat(
		[]route{
			{method: http.MethodGet, path: "/policies/{id}/OS-ENDPOINT-POLICY/endpoints", name: "ListEndpointsOfPolicy", serve: (*call).endpointsOfPolicy},
			{method: http.MethodGet, path: "/endpoints/{id}/OS-ENDPOINT-POLICY/policy", name: "GetPolicyOfEndpoint", serve: (*call).policyOfEndpoint},
		},
		of("/endpoints/{endpoint}", "PolicyOfEndpoint", "endpoint", identity.Endpoint),
		of("/services/{service}", "PolicyOfService", "service", identity.CatalogService),
		of("/services/{service}/regions/{region}", "PolicyOfServiceInRegion", "region_and_service", identity.CatalogService, identity.Region),
	)
}

// endpointsOfPolicy answers GET /v3/policies/{id}/OS-ENDPOINT-POLICY/endpoints.
func (c *call) endpointsOfPolicy() error {
	if err := c.may("list_endpoints_for_policy", nil); err != nil {
		return err
	}
	found, err := c.id.PolicyEndpoints(c.Context(), c.Params.At(0))
	if err != nil {
		return err
	}
	return c.sendRecords(endpoints, found, false)
}

// policyOfEndpoint answers GET /v3/endpoints/{id}/OS-ENDPOINT-POLICY/policy.
func (c *call) policyOfEndpoint() error {
	if err := c.may("get_policy_for_endpoint", nil); err != nil {
		return err
	}
	found, err := c.id.EndpointPolicy(c.Context(), c.Params.At(0))
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, policies, found)
}
