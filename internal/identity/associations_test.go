package identity_test

import (
	"slices"
	"testing"

	"github.com/ostiary/ostiary/internal/identity"
)

// estate is a deployment with two services in a tree of regions: world, with east
// below it.
type estate struct {
	*deployment
	project, compute, image string
	// computeEast, computeWorld and imageEast are endpoints.
	computeEast, computeWorld, imageEast string
}

func newEstate(t *testing.T) *estate {
	d := deploy(t)
	e := &estate{deployment: d, project: d.make(identity.Record{Kind: identity.Project, Name: "p"}).ID}
	d.make(identity.Record{Kind: identity.Region, ID: "world"})
	d.make(identity.Record{Kind: identity.Region, ID: "east", Parent: "world"})
	e.compute = d.make(identity.Record{Kind: identity.CatalogService, Members: identity.Members{}.With("type", "compute")}).ID
	e.image = d.make(identity.Record{Kind: identity.CatalogService, Members: identity.Members{}.With("type", "image")}).ID
	endpoint := func(service, region, face string) string {
		return d.make(identity.Record{Kind: identity.Endpoint, Parent: service, Members: identity.Members{}.With("interface", face).With("url", "u").With("region_id", region)}).ID
	}
	e.computeEast, e.computeWorld, e.imageEast = endpoint(e.compute, "east", "public"), endpoint(e.compute, "world", "admin"), endpoint(e.image, "east", "public")
	return e
}

func (e *estate) group(filters map[string]string) string {
	return e.make(identity.Record{Kind: identity.EndpointGroup, Name: "g", Members: identity.Members{}.With("filters", filters)}).ID
}

// sameIDs compares the ids of records, in any order.
func (e *estate) sameIDs(what string, got []*identity.Record, err error, want ...string) {
	e.t.Helper()
	e.ok(err)
	var ids []string
	for _, r := range got {
		ids = append(ids, r.ID)
	}
	slices.Sort(want)
	if !slices.IsSorted(ids) {
		e.t.Errorf("%s: %v is not sorted", what, ids)
	}
	e.equal(what, ids, want)
}

func TestEndpointFilters(t *testing.T) {
	e := newEstate(t)
	ctx := t.Context()
	associate := func(k identity.Kind, id string) map[identity.Kind]string {
		t.Helper()
		c := map[identity.Kind]string{identity.Project: e.project, k: id}
		e.ok(e.Associate(ctx, identity.EndpointFilter, c))
		return c
	}
	check := func(what string, want ...string) {
		t.Helper()
		got, err := e.ProjectEndpoints(ctx, e.project)
		e.sameIDs(what, got, err, want...)
	}
	check("without associations")
	for _, x := range []struct {
		filters map[string]string
		want    []string
	}{
		{map[string]string{"service_id": e.compute}, []string{e.computeEast, e.computeWorld}}, {map[string]string{"region_id": "east"}, []string{e.computeEast, e.imageEast}},
		{map[string]string{"interface": "public", "service_id": e.compute}, []string{e.computeEast}}, {map[string]string{"interface": "internal"}, nil},
	} {
		got, err := e.GroupEndpoints(ctx, e.group(x.filters))
		e.sameIDs("a group", got, err, x.want...)
	}
	public := e.group(map[string]string{"interface": "public", "service_id": e.compute})
	byGroup := associate(identity.EndpointGroup, public)
	check("of a group", e.computeEast)
	direct := associate(identity.Endpoint, e.imageEast)
	associate(identity.Endpoint, e.computeEast)
	check("of a group and two endpoints", e.computeEast, e.imageEast)
	e.fails(e.Associate(ctx, identity.EndpointFilter, direct), identity.Conflict, "project_endpoint - Duplicate entry")
	e.fails(e.Associate(ctx, identity.EndpointFilter, byGroup), identity.Conflict, "project_endpoint_group - Duplicate entry")
	e.fails(e.Associate(ctx, identity.EndpointFilter, map[identity.Kind]string{identity.Project: e.project, identity.Endpoint: "nope"}), identity.NotFound, "Could not find endpoint: nope.")
	_, err := e.GroupEndpoints(ctx, "nope")
	e.fails(err, identity.NotFound, "Could not find Endpoint Group: nope.")
	// Associations end with what they connect.
	e.ok(e.Delete(ctx, identity.Endpoint, e.imageEast))
	check("without the deleted endpoint", e.computeEast)
	existed, err := e.Dissociate(ctx, identity.EndpointFilter, direct)
	if existed || err != nil {
		t.Errorf("the association of a deleted endpoint exists: %v, %v", existed, err)
	}
	e.ok(e.Delete(ctx, identity.EndpointGroup, public))
	check("without the deleted group", e.computeEast)
	found, err := e.Associated(ctx, identity.EndpointFilter, byGroup)
	if found || err != nil {
		t.Errorf("the association of a deleted group exists: %v, %v", found, err)
	}
	e.ok(e.Delete(ctx, identity.Project, e.project))
	left, _, err := e.open().List(ctx, identity.ListRequest{Kind: identity.EndpointFilter})
	e.sameIDs("associations of a deleted project", left, err)
}

func TestPolicyAssociations(t *testing.T) {
	e := newEstate(t)
	ctx := t.Context()
	policy := func() string {
		return e.make(identity.Record{Kind: identity.Policy, Members: identity.Members{}.With("blob", "b").With("type", "t")}).ID
	}
	associate := func(policy string, of map[identity.Kind]string) map[identity.Kind]string {
		t.Helper()
		of[identity.Policy] = policy
		e.ok(e.Associate(ctx, identity.PolicyAssociation, of))
		return of
	}
	of := func(endpoint, want string) {
		t.Helper()
		p, err := e.EndpointPolicy(ctx, endpoint)
		if want == "" {
			e.fails(err, identity.NotFound, "No policy is associated with endpoint "+endpoint)
			return
		}
		e.ok(err)
		if p.ID != want {
			t.Errorf("policy %s, want %s", p.ID, want)
		}
	}
	bound := func(policy string, want ...string) {
		t.Helper()
		got, err := e.PolicyEndpoints(ctx, policy)
		e.sameIDs("the endpoints of a policy", got, err, want...)
	}
	service, region, endpoint := policy(), policy(), policy()
	of(e.computeEast, "")
	associate(service, map[identity.Kind]string{identity.CatalogService: e.compute})
	of(e.computeEast, service)
	of(e.imageEast, "")
	bound(service, e.computeEast, e.computeWorld)
	regional := associate(region, map[identity.Kind]string{identity.CatalogService: e.compute, identity.Region: "world"})
	of(e.computeEast, region) // of the region above
	bound(region, e.computeEast, e.computeWorld)
	associate(region, map[identity.Kind]string{identity.CatalogService: e.image, identity.Region: "east"})
	bound(region, e.computeEast, e.computeWorld, e.imageEast)
	own := associate(endpoint, map[identity.Kind]string{identity.Endpoint: e.computeEast})
	of(e.computeEast, endpoint)
	of(e.computeWorld, region)
	// A policy replaces another one.
	other := policy()
	associate(other, map[identity.Kind]string{identity.Endpoint: e.computeEast})
	of(e.computeEast, other)
	bound(endpoint)
	existed, err := e.Dissociate(ctx, identity.PolicyAssociation, own)
	if existed || err != nil {
		t.Errorf("an association of the replaced policy exists: %v, %v", existed, err)
	}
	e.ok(e.Delete(ctx, identity.Policy, other))
	of(e.computeEast, region)
	existed, err = e.Dissociate(ctx, identity.PolicyAssociation, regional)
	if !existed || err != nil {
		t.Errorf("removing an association: %v, %v", existed, err)
	}
	of(e.computeEast, service)
	e.ok(e.Delete(ctx, identity.CatalogService, e.compute))
	bound(service)
	left, _, err := e.open().List(ctx, identity.ListRequest{Kind: identity.PolicyAssociation})
	if err != nil || len(left) != 1 {
		t.Errorf("%d associations are left, want that of the image service: %v", len(left), err)
	}
	_, err = e.PolicyEndpoints(ctx, "nope")
	e.fails(err, identity.NotFound, "Could not find policy: nope.")
	_, err = e.EndpointPolicy(ctx, "nope")
	e.fails(err, identity.NotFound, "Could not find endpoint: nope.")
}
