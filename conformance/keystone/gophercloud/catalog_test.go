package gophercloud

import (
	"errors"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/catalog"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/policies"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/regions"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/registeredlimits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"
)

func testCatalog(s *session) {
	s.made("create region", &s.region, func() (string, error) {
		r, err := regions.Create(s.ctx, s.admin, regions.CreateOpts{ID: "meadow", Description: "green"}).Extract()
		if err != nil {
			return "", err
		}
		return r.ID, equal(r.ID, "meadow")
	})
	s.check("update region", func() error {
		text := "brown"
		r, err := regions.Update(s.ctx, s.admin, s.region, regions.UpdateOpts{Description: &text}).Extract()
		if err != nil {
			return err
		}
		return equal(r.Description, text)
	})
	s.listed("list regions", regions.List(s.admin, nil), s.region)
	s.made("create service", &s.service, func() (string, error) {
		v, err := services.Create(s.ctx, s.admin, services.CreateOpts{Type: "burrowing", Name: "digger"}).Extract()
		if err != nil {
			return "", err
		}
		return v.ID, equal(v.Type, "burrowing")
	})
	s.check("get service", func() error {
		v, err := services.Get(s.ctx, s.admin, s.service).Extract()
		if err != nil {
			return err
		}
		return equal(v.Enabled, true)
	})
	s.listed("list services", services.List(s.admin, services.ListOpts{Name: "digger"}), s.service)
	s.made("create endpoint", &s.endpoint, func() (string, error) {
		e, err := endpoints.Create(s.ctx, s.admin, endpoints.CreateOpts{Availability: gophercloud.AvailabilityPublic, Region: s.region, URL: "http://127.0.0.1/$(project_id)s", ServiceID: s.service}).Extract()
		if err != nil {
			return "", err
		}
		return e.ID, equal(e.Region, s.region)
	})
	s.check("update endpoint", func() error {
		e, err := endpoints.Update(s.ctx, s.admin, s.endpoint, endpoints.UpdateOpts{URL: "http://127.0.0.1/v2/$(project_id)s"}).Extract()
		if err != nil {
			return err
		}
		return equal(e.URL, "http://127.0.0.1/v2/$(project_id)s")
	})
	s.listed("list endpoints", endpoints.List(s.admin, endpoints.ListOpts{ServiceID: s.service}), s.endpoint)
	s.listed("catalog with the project's id", catalog.List(s.admin), "http://127.0.0.1/v2/"+s.adminProject)
	s.refused("delete a region with endpoints", http.StatusForbidden, func() error { return regions.Delete(s.ctx, s.admin, s.region).Err })
	s.check("delete endpoint", func() error { return endpoints.Delete(s.ctx, s.admin, s.endpoint).Err })
	s.check("delete service", func() error { return services.Delete(s.ctx, s.admin, s.service).Err })
	s.check("delete region", func() error { return regions.Delete(s.ctx, s.admin, s.region).Err })
}

func testLimits(s *session) {
	service, registered, limit := "", "", ""
	s.made("create service with limits", &service, func() (string, error) {
		v, err := services.Create(s.ctx, s.admin, services.CreateOpts{Type: "limited", Name: "limited"}).Extract()
		if err != nil {
			return "", err
		}
		return v.ID, nil
	})
	s.check("get the enforcement model", func() error {
		m, err := limits.GetEnforcementModel(s.ctx, s.admin).Extract()
		if err != nil {
			return err
		}
		return equal(m.Name, "flat")
	})
	s.made("create registered limit", &registered, func() (string, error) {
		list, err := registeredlimits.BatchCreate(s.ctx, s.admin, registeredlimits.BatchCreateOpts{{ServiceID: service, ResourceName: "holes", DefaultLimit: 5}}).Extract()
		if err != nil || len(list) != 1 {
			return "", errors.Join(err, equal(len(list), 1))
		}
		return list[0].ID, equal(list[0].DefaultLimit, 5)
	})
	s.made("create limit", &limit, func() (string, error) {
		list, err := limits.BatchCreate(s.ctx, s.admin, limits.BatchCreateOpts{{ServiceID: service, ProjectID: s.project, ResourceName: "holes", ResourceLimit: 3}}).Extract()
		if err != nil || len(list) != 1 {
			return "", errors.Join(err, equal(len(list), 1))
		}
		return list[0].ID, equal(list[0].ResourceLimit, 3)
	})
	s.check("update limit", func() error {
		n := 7
		l, err := limits.Update(s.ctx, s.admin, limit, limits.UpdateOpts{ResourceLimit: &n}).Extract()
		if err != nil {
			return err
		}
		return equal(l.ResourceLimit, n)
	})
	s.listed("list limits", limits.List(s.admin, limits.ListOpts{ServiceID: service}), limit)
	s.check("delete limits", func() error {
		return errors.Join(limits.Delete(s.ctx, s.admin, limit).Err, registeredlimits.Delete(s.ctx, s.admin, registered).Err, services.Delete(s.ctx, s.admin, service).Err)
	})
}

func testPolicies(s *session) {
	id := ""
	s.made("create policy", &id, func() (string, error) {
		p, err := policies.Create(s.ctx, s.admin, policies.CreateOpts{Type: "application/json", Blob: []byte("{}")}).Extract()
		if err != nil {
			return "", err
		}
		return p.ID, nil
	})
	s.listed("list policies", policies.List(s.admin, nil), id)
	s.check("delete policy", func() error { return policies.Delete(s.ctx, s.admin, id).Err })
}
