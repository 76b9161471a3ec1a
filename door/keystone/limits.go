package keystone

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/access"
)

// limitMax is the largest number of a limit. The smallest is -1, which means no
// limit.
const limitMax = 1<<31 - 1

// Fields that limits and registered limits have in common.
var (
	limitService     = field{name: "service_id", form: formName, required: true, max: 64}
	limitRegion      = field{name: "region_id", form: formName, null: true, max: 255}
	limitResource    = field{name: "resource_name", form: formName, required: true, max: 255}
	limitValue       = field{name: "resource_limit", form: formLimit, required: true}
	limitDescription = field{name: "description", null: true, max: 255}
)

var (
	registeredLimits = &resource{
		kind: identity.RegisteredLimit, singular: "registered_limit", plural: "registered_limits", closed: true,
		filters: []string{"service_id", "region_id", "resource_name"},
		fields:  []field{limitService, limitRegion, limitResource, {name: "default_limit", form: formLimit, required: true}, limitDescription},
		target:  func(target, *identity.Record) {},
		show:    func(o *object, r *identity.Record) { showLimit(o, r, "default_limit") },
	}
	limits = &resource{
		kind: identity.Limit, singular: "limit", plural: "limits", closed: true,
		filters: []string{"service_id", "region_id", "resource_name", "project_id", "domain_id"},
		fields:  []field{limitValue, limitDescription}, // of an update
		target: func(t target, r *identity.Record) {
			if project := r.Members.Text("project_id"); project != "" {
				t["target.limit.project_id"], t["target.limit.project.domain_id"] = project, r.Domain
			} else {
				t["target.limit.project_id"], t["target.limit.domain.id"] = access.Null, r.Domain
			}
		},
		show: func(o *object, r *identity.Record) {
			o.member(r.Members, "project_id", "null")
			o.textOrNull("domain_id", memberOf(r, "domain_id"))
			showLimit(o, r, "resource_limit")
		},
	}
	// newLimits describes the elements of POST /v3/limits.
	newLimits = &resource{
		kind: identity.Limit, singular: "limit", plural: "limits", closed: true,
		fields: []field{limitService, limitRegion, limitResource, limitValue, limitDescription,
			{name: "project_id", form: formName, null: true, max: 64}, {name: "domain_id", form: formName, null: true, max: 64}},
	}
)

// addLimited adds the project or the domain of a limit to a target.
func (c *call) addLimited(t target, r *identity.Record) {
	name, of, id := "target.limit.project", projects, r.Members.Text("project_id")
	if id == "" {
		name, of, id = "target.limit.domain", domains, r.Domain
	}
	if limited, err := c.id.Get(c.Context(), identity.Project, id); err == nil {
		t[name] = of.shown(limited)
	}
}

// showLimit appends the members that limits and registered limits have in common.
func showLimit(o *object, r *identity.Record, value string) {
	o.text("id", r.ID)
	o.text("service_id", r.Parent)
	o.member(r.Members, "region_id", "null")
	o.member(r.Members, "resource_name", "null")
	o.member(r.Members, value, "null")
	o.member(r.Members, "description", "null")
}

// limitRoutes are the routes of limits and registered limits. Their POST makes
// several at once.
func limitRoutes() []route {
	return slices.Concat(
		served(records(registeredLimits, "RegisteredLimit"), handlers{
			"CreateRegisteredLimit": func(c *call) error { return c.createLimits(registeredLimits, registeredLimits) },
		}),
		served(records(limits, "Limit"), handlers{
			"CreateLimit": func(c *call) error { return c.createLimits(newLimits, limits) },
			"ListLimits":  (*call).listLimits,
		}),
		[]route{{method: http.MethodGet, path: "/limits/model", name: "GetLimitModel", serve: (*call).limitModel}})
}

// limitModel answers GET /v3/limits/model.
func (c *call) limitModel() error {
	if err := c.may("get_limit_model", nil); err != nil {
		return err
	}
	model := c.id.Limits()
	var o object
	o.begin("model")
	o.text("name", string(model))
	o.text("description", identity.DescribeLimits(model))
	o.end()
	return c.write(http.StatusOK, &o)
}

// createLimits answers a POST with a list of limits. from describes the elements
// of the list, and shown those of the response.
func (c *call) createLimits(from, shown *resource) error {
	if err := c.may("create_"+from.plural, nil); err != nil {
		return err
	}
	value, err := c.bodyValue(from.plural)
	if err != nil {
		return err
	}
	var elements []json.RawMessage
	if json.Unmarshal(value, &elements) != nil || elements == nil {
		return invalidField(from.plural, string(value), shorten(string(value))+" is not of type 'array'")
	}
	if len(elements) == 0 {
		return invalidField(from.plural, string(value), "[] should be non-empty")
	}
	var given []identity.Record
	for _, e := range elements {
		m, err := identity.ParseMembers(e)
		if err != nil {
			return invalidField(from.plural, string(e), "expected an object")
		}
		if err := from.check(m, true); err != nil {
			return err
		}
		r := identity.Record{Kind: from.kind}
		if err := apply(&r, m); err != nil {
			return err
		}
		given = append(given, r)
	}
	made, err := c.id.CreateLimits(c.Context(), given)
	if err != nil {
		return err
	}
	var o object
	list(&o, shown.plural, made, func(o *object, r *identity.Record) {
		shown.show(o, r)
		o.links(c.link(shown.plural, r.ID))
	})
	return c.write(http.StatusCreated, &o)
}

// listLimits answers GET /v3/limits. Administrators, services and tokens with
// system scope see all limits, others those of the domain or the project in the
// scope of their token.
func (c *call) listLimits() error {
	if err := c.may("list_limits", nil); err != nil {
		return err
	}
	selected, err := c.filter(limits)
	if err != nil {
		return err
	}
	return c.sendPage(limits, func(r *identity.Record) bool { return c.seesLimit(r) && selected(r) })
}

func (c *call) seesLimit(r *identity.Record) bool {
	k := &c.credentials
	switch {
	case k.System || slices.Contains(k.Roles, "admin") || slices.Contains(k.Roles, "service"):
		return true
	case k.DomainID != "":
		return r.Domain == k.DomainID
	}
	return k.ProjectID != "" && r.Members.Text("project_id") == k.ProjectID
}
