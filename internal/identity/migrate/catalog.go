package migrate

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/ostiary/ostiary/internal/identity"
)

func (m *migration) services(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, type, enabled, extra FROM service ORDER BY id`, func(x row) error {
		extra, err := x.extra("type", "enabled")
		if err != nil {
			return m.refuse(x.text("id"), err)
		}
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.CatalogService, ID: x.text("id"), Name: extra.Text("name"), Disabled: !x.yes("enabled"),
			Members: x.with(nil, "type", "type").Join(extra.Without("name"))}})
	})
}

func (m *migration) endpoints(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, interface, service_id, url, extra, enabled, region_id FROM endpoint ORDER BY id`, func(x row) error {
		extra, err := x.extra("interface", "url", "region_id", "service_id", "enabled")
		if err != nil {
			return m.refuse(x.text("id"), err)
		}
		members := x.with(x.with(x.with(nil, "interface", "interface"), "url", "url"), "region_id", "region_id")
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Endpoint, ID: x.text("id"), Name: extra.Text("name"), Parent: x.text("service_id"),
			Disabled: !x.yes("enabled"), Members: members.Join(extra.Without("name"))}})
	})
}

func (m *migration) endpointGroups(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, name, description, filters FROM endpoint_group ORDER BY id`, func(x row) error {
		filters, err := identity.ParseMembers([]byte(x.text("filters")))
		if err != nil {
			return m.refuse(x.text("id"), invalid("filters", err.Error()))
		}
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.EndpointGroup, ID: x.text("id"), Name: x.text("name"),
			Members: x.with(nil, "description", "description").With("filters", filters)}})
	})
}

func (m *migration) projectEndpoints(ctx context.Context) error {
	return m.associations(ctx, identity.EndpointFilter, `SELECT project_id, endpoint_id FROM project_endpoint ORDER BY project_id, endpoint_id`)
}

func (m *migration) projectEndpointGroups(ctx context.Context) error {
	return m.associations(ctx, identity.EndpointFilter, `SELECT project_id, endpoint_group_id FROM project_endpoint_group ORDER BY project_id, endpoint_group_id`)
}

func (m *migration) policyAssociations(ctx context.Context) error {
	return m.associations(ctx, identity.PolicyAssociation, `SELECT policy_id, endpoint_id, service_id, region_id FROM policy_association ORDER BY id`)
}

// ends are the kinds of the records that an association connects, by columns.
var ends = map[string]identity.Kind{"project_id": identity.Project, "endpoint_id": identity.Endpoint, "endpoint_group_id": identity.EndpointGroup,
	"policy_id": identity.Policy, "service_id": identity.CatalogService, "region_id": identity.Region}

// associations copies the associations of a kind. The columns of a row that are not
// NULL are the records that it connects.
func (m *migration) associations(ctx context.Context, kind identity.Kind, query string) error {
	return m.from.each(ctx, query, func(x row) error {
		connects := map[identity.Kind]string{}
		for column := range x.columns {
			if id := x.text(column); id != "" {
				connects[ends[column]] = id
			}
		}
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: kind, Connects: connects}})
	})
}

// policies copies the texts that other services read.
func (m *migration) policies(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, type, "blob", extra FROM policy ORDER BY id`, func(x row) error {
		extra, err := x.extra("type", "blob")
		if err != nil {
			return m.refuse(x.text("id"), err)
		}
		blob := json.RawMessage(x.text("blob"))
		if !json.Valid(blob) {
			return m.refuse(x.text("id"), invalid("blob", "invalid JSON"))
		}
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Policy, ID: x.text("id"),
			Members: identity.Members{}.With("type", x.text("type")).With("blob", blob).Join(extra)}})
	})
}

func (m *migration) registeredLimits(ctx context.Context) error {
	return m.from.each(ctx, `SELECT id, service_id, region_id, resource_name, default_limit, description FROM registered_limit ORDER BY id`, func(x row) error {
		members := x.with(nil, "region_id", "region_id").With("resource_name", x.text("resource_name")).With("default_limit", x.number("default_limit"))
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.RegisteredLimit, ID: x.text("id"), Parent: x.text("service_id"),
			Members: x.with(members, "description", "description")}})
	})
}

func (m *migration) limits(ctx context.Context) error {
	return m.from.each(ctx, `SELECT l.id, l.project_id, l.domain_id, l.resource_limit, l.description, r.service_id, r.region_id, r.resource_name
 FROM "limit" l LEFT JOIN registered_limit r ON r.id = l.registered_limit_id ORDER BY l.id`, func(x row) error {
		if x.null("resource_name") {
			return m.refuse(x.text("id"), errors.New("the registered limit does not exist"))
		}
		members := x.with(nil, "region_id", "region_id").With("resource_name", x.text("resource_name")).With("resource_limit", x.number("resource_limit"))
		members = x.with(x.with(members, "description", "description"), "project_id", "project_id")
		return m.add(ctx, identity.Loaded{Record: identity.Record{Kind: identity.Limit, ID: x.text("id"), Parent: x.text("service_id"), Domain: x.text("domain_id"), Members: members}})
	})
}
