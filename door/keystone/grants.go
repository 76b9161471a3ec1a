package keystone

import (
	"net/http"

	"github.com/ostiary/ostiary/internal/identity"
)

// grantRoute is a family of routes for grants, by the kinds in the path.
type grantRoute struct {
	domain    bool // the target is a domain, otherwise a project
	system    bool // the target is the system
	group     bool // the grant is to a group, otherwise to a user
	inherited bool // the grants hold below the target
}

// grant returns the grant that the path names, with the attributes for rules.
// missing is the error of the first of target and role that does not exist, and gone
// that of the user or group.
func (x grantRoute) grant(c *call) (g identity.Grant, t target, missing, gone error) {
	t = target{}
	next := 0
	take := func() string { next++; return c.Params.At(next - 1) }
	load := func(r *resource, id string, err *error) {
		record, e := c.byID(r, id)
		if e == nil {
			r.addTo(t, record)
		} else if *err == nil {
			*err = e
		}
	}
	g.Inherited = x.inherited
	switch {
	case x.system:
		g.Target = identity.System
	case x.domain:
		g.Target = take()
		load(domains, g.Target, &missing)
	default:
		g.Target = take()
		load(projects, g.Target, &missing)
	}
	if x.group {
		g.GroupID = take()
		load(groups, g.GroupID, &gone)
	} else {
		g.UserID = take()
		load(users, g.UserID, &gone)
	}
	if g.RoleID = take(); g.RoleID != "" {
		load(roles, g.RoleID, &missing)
	}
	return g, t, missing, gone
}

// operation returns the name of the rule of a verb.
func (x grantRoute) operation(verb string) string {
	if !x.system {
		if verb == "list" {
			return "list_grants"
		}
		return verb + "_grant"
	}
	principal := "_for_user"
	if x.group {
		principal = "_for_group"
	}
	if verb == "list" {
		return "list_system_grants" + principal
	}
	return verb + "_system_grant" + principal
}

// act checks the rule of a verb and calls do with the grant of the path. As in
// Keystone, records that do not exist are reported before the rule is asked, but not
// those of inherited grants. The user or the group of a grant that is removed need
// not exist.
func (x grantRoute) act(verb string, do func(*call, identity.Grant) error) func(*call) error {
	return func(c *call) error {
		g, t, missing, gone := x.grant(c)
		if missing == nil && verb != "revoke" {
			missing = gone
		}
		if missing != nil && !x.inherited {
			return missing
		}
		if err := c.may(x.operation(verb), t); err != nil {
			return err
		}
		if missing != nil {
			return missing
		}
		if verb == "create" || verb == "revoke" {
			c.granted = &notifiedGrant{g, x.domain}
		}
		return do(c, g)
	}
}

// routes returns the routes of the family below a path that ends with the
// principal, for example "/projects/{p}/users/{u}/roles".
func (x grantRoute) routes(path, end, name string) []route {
	return []route{
		{method: http.MethodPut, path: path + "/{role}" + end, name: "Create" + name, serve: x.act("create", func(c *call, g identity.Grant) error {
			if err := c.id.Grant(c.Context(), g); err != nil {
				return err
			}
			return c.done()
		})},
		{method: http.MethodDelete, path: path + "/{role}" + end, name: "Revoke" + name, serve: x.act("revoke", func(c *call, g identity.Grant) error {
			if err := c.id.Revoke(c.Context(), g); err != nil {
				return err
			}
			return c.done()
		})},
		{method: http.MethodGet, path: path + "/{role}" + end, name: "Check" + name, serve: x.act("check", func(c *call, g identity.Grant) error {
			found, err := c.id.Granted(c.Context(), g)
			if err == nil && !found {
				err = &statusError{http.StatusNotFound, "Could not find role assignment with role: " + g.RoleID + "."}
			}
			if err != nil {
				return err
			}
			return c.done()
		})},
		{method: http.MethodGet, path: path + end, name: "List" + name, serve: x.act("list", listGrants)},
	}
}

// listGrants answers with the roles that a principal has on a target directly.
func listGrants(c *call, g identity.Grant) error {
	grants, err := c.id.Grants(c.Context(), g.UserID, g.GroupID, g.Target, "")
	if err != nil {
		return err
	}
	var ids []string
	for _, x := range grants {
		if x.Inherited == g.Inherited {
			ids = append(ids, x.RoleID)
		}
	}
	granted, err := c.lookupAll(identity.Role, ids)
	if err != nil {
		return err
	}
	return c.sendRecords(roles, granted, false)
}

// implied answers PUT, GET and DELETE of /v3/roles/{prior}/implies/{implied}.
func (c *call) implied(operation string, do func(prior, implied *identity.Record) error) error {
	prior, err := c.id.Get(c.Context(), identity.Role, c.Params.At(0))
	if err != nil {
		return err
	}
	implied, err := c.id.Get(c.Context(), identity.Role, c.Params.At(1))
	if err != nil {
		return err
	}
	if err := c.may(operation, target{"target.prior_role": roles.shown(prior), "target.implied_role": roles.shown(implied)}); err != nil {
		return err
	}
	return do(prior, implied)
}

// unimplied is the name of the role that no role may imply, because its users
// may administer the whole deployment.
const unimplied = "admin"

func (c *call) createImplied() error {
	return c.implied("create_implied_role", func(prior, implied *identity.Record) error {
		if implied.Name == unimplied {
			return &statusError{http.StatusForbidden, implied.ID + " cannot be an implied roles"}
		}
		if err := c.id.Imply(c.Context(), prior.ID, implied.ID); err != nil {
			return err
		}
		return c.sendInference(http.StatusCreated, prior, implied)
	})
}

func (c *call) deleteImplied() error {
	return c.implied("delete_implied_role", func(prior, implied *identity.Record) error {
		if err := c.id.NotImply(c.Context(), prior.ID, implied.ID); err != nil {
			return err
		}
		return c.done()
	})
}

func (c *call) getImplied() error {
	operation := "get_implied_role"
	if c.R.Method == http.MethodHead {
		operation = "check_implied_role"
	}
	return c.implied(operation, func(prior, implied *identity.Record) error {
		of, err := c.id.Implied(c.Context(), prior.ID)
		if err != nil {
			return err
		}
		for _, id := range of {
			if id != implied.ID {
				continue
			}
			if c.R.Method == http.MethodHead {
				return c.done()
			}
			return c.sendInference(http.StatusOK, prior, implied)
		}
		return &statusError{http.StatusNotFound, prior.ID + " does not imply " + implied.ID}
	})
}

func (c *call) inferenceMember(o *object, name string, r *identity.Record) {
	o.begin(name)
	c.inferenceRole(o, r)
	o.end()
}

func (c *call) inferenceRole(o *object, r *identity.Record) {
	o.text("id", r.ID)
	o.text("name", r.Name)
	o.links(c.link("roles", r.ID))
}

func (c *call) sendInference(status int, prior, implied *identity.Record) error {
	var o object
	o.begin("role_inference")
	c.inferenceMember(&o, "prior_role", prior)
	c.inferenceMember(&o, "implies", implied)
	o.end()
	o.links(c.self(c.R))
	return c.write(status, &o)
}

// inference appends a prior role with all roles that it implies directly.
func (c *call) inference(o *object, prior *identity.Record, implied []*identity.Record) {
	c.inferenceMember(o, "prior_role", prior)
	list(o, "implies", implied, c.inferenceRole)
}

func (c *call) impliedBy(prior *identity.Record) ([]*identity.Record, error) {
	ids, err := c.id.Implied(c.Context(), prior.ID)
	if err != nil {
		return nil, err
	}
	return c.lookupAll(identity.Role, ids)
}

// listImplied answers GET /v3/roles/{prior}/implies.
func (c *call) listImplied() error {
	prior, err := c.id.Get(c.Context(), identity.Role, c.Params.At(0))
	if err != nil {
		return err
	}
	if err := c.may("list_implied_roles", target{"target.prior_role": roles.shown(prior)}); err != nil {
		return err
	}
	implied, err := c.impliedBy(prior)
	if err != nil {
		return err
	}
	var o object
	o.begin("role_inference")
	c.inference(&o, prior, implied)
	o.end()
	o.links(c.self(c.R))
	return c.write(http.StatusOK, &o)
}

// listInferences answers GET /v3/role_inferences.
func (c *call) listInferences() error {
	if err := c.may("list_role_inference_rules", nil); err != nil {
		return err
	}
	all, _, err := c.id.List(c.Context(), identity.ListRequest{Kind: identity.Role})
	if err != nil {
		return err
	}
	var priors []*identity.Record
	implied := map[string][]*identity.Record{}
	for _, r := range all {
		if implied[r.ID], err = c.impliedBy(r); err != nil {
			return err
		}
		if len(implied[r.ID]) > 0 {
			priors = append(priors, r)
		}
	}
	var o object
	list(&o, "role_inferences", priors, func(o *object, r *identity.Record) { c.inference(o, r, implied[r.ID]) })
	return c.write(http.StatusOK, &o)
}
