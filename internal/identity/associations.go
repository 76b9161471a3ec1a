package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"

	"github.com/ostiary/ostiary/authz"
)

// associationID returns the id of the association of records, a hash of their kinds
// and ids. It does not depend on the policy, because an endpoint, a service or a
// region has one.
func associationID(connects map[Kind]string) string {
	q := url.Values{}
	for k, id := range connects {
		if k != Policy {
			q.Set(string(k), id)
		}
	}
	sum := sha256.Sum256([]byte(q.Encode()))
	return hex.EncodeToString(sum[:])
}

// Associate adds an association of kind k, which is [EndpointFilter] or
// [PolicyAssociation], of the records with the ids. It fails with NotFound if one
// of them does not exist. If the association exists, it fails with Conflict, except
// that a policy replaces another one.
func (s *Service) Associate(ctx context.Context, k Kind, connects map[Kind]string) error {
	x := &Record{Kind: k, ID: associationID(connects), Connects: maps.Clone(connects)}
	_, err := s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		for of, id := range connects {
			if _, err := d.get(of, id); err != nil {
				return authz.WriteRequest{}, err
			}
		}
		if _, err := d.get(k, x.ID); err == nil && k == EndpointFilter {
			what := "project_" + string(EndpointGroup)
			if _, direct := connects[Endpoint]; direct {
				what = "project_" + string(Endpoint)
			}
			return authz.WriteRequest{}, failf(Conflict, "Conflict occurred attempting to store %s - Duplicate entry.", what)
		}
		return authz.WriteRequest{Documents: []authz.Document{x.document()}}, nil
	})
	return err
}

// Associated returns whether the association exists.
func (s *Service) Associated(ctx context.Context, k Kind, connects map[Kind]string) (bool, error) {
	d, err := s.at(ctx)
	return err == nil && d.associated(k, connects), err
}

func (d *directory) associated(k Kind, connects map[Kind]string) bool {
	x, err := d.get(k, associationID(connects))
	return err == nil && maps.Equal(x.Connects, connects)
}

// Dissociate removes an association, and returns whether it existed.
func (s *Service) Dissociate(ctx context.Context, k Kind, connects map[Kind]string) (existed bool, err error) {
	_, err = s.write(ctx, func(d *directory) (w authz.WriteRequest, _ error) {
		if existed = d.associated(k, connects); existed {
			w.RemoveDocuments = []authz.DocumentKey{(&Record{Kind: k, ID: associationID(connects)}).key()}
		}
		return w, nil
	})
	return existed, err
}

// selects returns whether an endpoint group selects an endpoint. A filter that
// cannot be read selects none.
func (r *Record) selects(e *Record) bool {
	var filters map[string]string
	text, _ := r.Members.Get("filters")
	if json.Unmarshal(text, &filters) != nil {
		return false
	}
	for name, want := range filters {
		got := e.Members.Text(name)
		if name == "service_id" {
			got = e.Parent
		}
		if got != want {
			return false
		}
	}
	return true
}

// GroupEndpoints returns the endpoints that an endpoint group selects, in the order
// of their ids. It fails with NotFound.
func (s *Service) GroupEndpoints(ctx context.Context, group string) ([]*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	g, err := d.get(EndpointGroup, group)
	if err != nil {
		return nil, err
	}
	return d.endpoints(g.selects), nil
}

// endpoints returns the endpoints that satisfy match, in the order of their ids.
func (d *directory) endpoints(match func(*Record) bool) (all []*Record) {
	t := d.tables[Endpoint]
	t.byID.Ascend("", func(_ string, e *Record) bool {
		if match(e) {
			all = append(all, e)
		}
		return true
	})
	return all
}

// ProjectEndpoints returns the endpoints that are associated with a project, by
// themselves or by endpoint groups, in the order of their ids. If there are any,
// the catalog of the project has no others.
func (s *Service) ProjectEndpoints(ctx context.Context, project string) ([]*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	filters := d.referring(link{Project, project}, EndpointFilter)
	if len(filters) == 0 {
		return nil, nil
	}
	return d.endpoints(func(e *Record) bool {
		return slices.ContainsFunc(filters, func(f *Record) bool {
			g, err := d.get(EndpointGroup, f.Connects[EndpointGroup])
			return f.Connects[Endpoint] == e.ID || err == nil && g.selects(e)
		})
	}), nil
}

// PolicyEndpoints returns the endpoints that a policy is associated with: by
// themselves, by their service, or by their service and a region at or above
// theirs. They are in the order of their ids.
func (s *Service) PolicyEndpoints(ctx context.Context, policy string) ([]*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := d.get(Policy, policy); err != nil {
		return nil, err
	}
	all := d.referring(link{Policy, policy}, PolicyAssociation)
	return d.endpoints(func(e *Record) bool {
		return slices.ContainsFunc(all, func(a *Record) bool {
			region, regional := a.Connects[Region]
			switch {
			case a.Connects[Endpoint] != "":
				return a.Connects[Endpoint] == e.ID
			case a.Connects[CatalogService] != e.Parent:
				return false
			}
			return !regional || slices.Contains(d.regionsOf(e), region)
		})
	}), nil
}

// regionsOf returns the region of an endpoint and the regions above it.
func (d *directory) regionsOf(e *Record) (ids []string) {
	for id := e.Members.Text("region_id"); id != "" && !slices.Contains(ids, id); {
		ids = append(ids, id)
		r, err := d.get(Region, id)
		if err != nil {
			break
		}
		id = r.Parent
	}
	return ids
}

// EndpointPolicy returns the policy of an endpoint: its own one, that of its service
// in the nearest region, or that of its service. It fails with NotFound if the
// endpoint does not exist or has no policy.
func (s *Service) EndpointPolicy(ctx context.Context, endpoint string) (*Record, error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	e, err := d.get(Endpoint, endpoint)
	if err != nil {
		return nil, err
	}
	candidates := []map[Kind]string{{Endpoint: e.ID}}
	for _, region := range d.regionsOf(e) {
		candidates = append(candidates, map[Kind]string{CatalogService: e.Parent, Region: region})
	}
	for _, c := range append(candidates, map[Kind]string{CatalogService: e.Parent}) {
		if a, err := d.get(PolicyAssociation, associationID(c)); err == nil {
			return d.get(Policy, a.Connects[Policy])
		}
	}
	return nil, failf(NotFound, "No policy is associated with endpoint %s.", e.ID)
}
