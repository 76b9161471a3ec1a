package keystone

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity"
)

// endpointMembers are the members of an endpoint that every entry of a catalog shows.
var endpointMembers = [...]string{"interface", "region_id", "url"}

// enabled reports whether a record is enabled.
func enabled(r *identity.Record) bool { return !r.Disabled }

// offered returns what the catalog of a token has: all enabled services and all
// enabled endpoints. If endpoints are associated with the project of the token, it
// has those only, and no service without one of them.
func (c *call) offered(t *identity.Token) (all, reachable []*identity.Record, err error) {
	ctx := c.Context()
	if all, _, err = c.id.List(ctx, identity.ListRequest{Kind: identity.CatalogService, Match: enabled}); err != nil {
		return nil, nil, err
	}
	if reachable, _, err = c.id.List(ctx, identity.ListRequest{Kind: identity.Endpoint, Match: enabled}); err != nil {
		return nil, nil, err
	}
	filtered, err := c.id.ProjectEndpoints(ctx, t.Scope.ProjectID)
	if err != nil || len(filtered) == 0 {
		return all, reachable, err
	}
	ids := map[string]bool{}
	for _, e := range filtered {
		ids[e.ID] = true
	}
	reachable = slices.DeleteFunc(reachable, func(e *identity.Record) bool { return !ids[e.ID] })
	all = slices.DeleteFunc(all, func(s *identity.Record) bool {
		return !slices.ContainsFunc(reachable, func(e *identity.Record) bool { return e.Parent == s.ID })
	})
	return all, reachable, nil
}

// catalogsMax bounds the catalogs that are remembered, and catalogBytesMax the size of
// each.
const (
	catalogsMax     = 1000
	catalogBytesMax = 16 << 10
)

// catalogState is a revision of a deployment.
type catalogState struct {
	of *identity.Service
	at authz.Token
}

// catalogKey is what the catalog of a token depends on, in addition to the records.
type catalogKey struct{ project, user, base string }

// showCatalog appends the catalog of a token. It remembers the text for the newest
// revision, because making it takes longer than the rest of a validation.
func (c *call) showCatalog(o *object, t *identity.Token) error {
	at, err := c.id.Newest(c.Context())
	if err != nil {
		return err
	}
	values := c.substitutions(t)
	state, key := catalogState{c.id, at}, catalogKey{values["project_id"], values["user_id"], values["public_endpoint"]}
	text, ok := c.catalogs.Get(state, key)
	if !ok {
		if text, err = c.catalog(t, values); err != nil {
			return err
		}
		if len(text) <= catalogBytesMax {
			c.catalogs.Add(state, key, text)
		}
	}
	o.raw("catalog", text)
	return nil
}

// catalog returns the catalog of a token as JSON. values are those of placeholders.
func (c *call) catalog(t *identity.Token, values map[string]string) ([]byte, error) {
	all, reachable, err := c.offered(t)
	if err != nil {
		return nil, err
	}
	urls := map[*identity.Record]string{} // of the endpoints whose URLs have all values
	for _, e := range reachable {
		if url, ok := expand(e.Members.Text("url"), values); ok {
			urls[e] = url
		}
	}
	var o object
	list(&o, "catalog", all, func(o *object, s *identity.Record) {
		of := slices.DeleteFunc(slices.Clone(reachable), func(e *identity.Record) bool {
			_, ok := urls[e]
			return e.Parent != s.ID || !ok
		})
		list(o, "endpoints", of, func(o *object, e *identity.Record) {
			o.text("id", e.ID)
			o.text("interface", e.Members.Text("interface"))
			o.textOrNull("region_id", e.Members.Text("region_id"))
			o.text("url", urls[e])
			o.textOrNull("region", e.Members.Text("region_id"))
			if e.Name != "" {
				o.text("name", e.Name)
			}
			for _, m := range e.Members {
				if !slices.Contains(endpointMembers[:], m.Name) {
					o.raw(m.Name, m.Value)
				}
			}
		})
		o.text("id", s.ID)
		o.text("type", s.Members.Text("type"))
		o.text("name", s.Name)
	})
	return bytes.TrimPrefix(o.buf, []byte(`{"catalog":`)), nil
}

// substitutions returns the values of the placeholders in URLs, by their names.
func (c *call) substitutions(t *identity.Token) map[string]string {
	user := t.User.ID
	if t.Trust != nil {
		user = t.Trust.Owner
	}
	values := map[string]string{"user_id": user, "public_endpoint": c.base(c.R)}
	if id := t.Scope.ProjectID; id != "" {
		values["project_id"], values["tenant_id"] = id, id
	}
	return values
}

// authCatalog answers GET /v3/auth/catalog.
func (c *call) authCatalog() error {
	if err := c.may("get_auth_catalog", nil); err != nil {
		return err
	}
	if c.caller.Scope.ProjectID == "" {
		return &statusError{http.StatusForbidden, "The service catalog is only available for tokens with the scope of a project."}
	}
	var o object
	if err := c.showCatalog(&o, c.caller); err != nil {
		return err
	}
	o.links(c.self(c.R))
	return c.write(http.StatusOK, &o)
}

// authTargets answers GET /v3/auth/projects and GET /v3/auth/domains.
func (c *call) authTargets(x *resource) error {
	if err := c.may("get_auth_"+x.plural, nil); err != nil {
		return err
	}
	return c.targetsOf(x, c.caller.User.ID, c.caller.GroupIDs...)
}

func (c *call) targetsOf(x *resource, user string, groups ...string) error {
	found, err := c.targets(x, user, groups...)
	if err != nil {
		return err
	}
	return c.sendRecords(x, found, false)
}

// targets returns the projects or domains on which a user, or one of the groups, has a
// role.
func (c *call) targets(x *resource, user string, groups ...string) ([]*identity.Record, error) {
	ids, err := c.id.Targets(c.Context(), user, groups...)
	if err != nil {
		return nil, err
	}
	found, err := c.lookupAll(identity.Project, ids)
	return slices.DeleteFunc(found, func(r *identity.Record) bool { return r.IsDomain != x.domains }), err
}

// projectsOfUser answers GET /v3/users/{id}/projects.
func (c *call) projectsOfUser() error {
	u, err := c.get(users, "list_user_projects", c.Params.At(0))
	if err != nil {
		return err
	}
	found, err := c.targets(projects, u.ID)
	if err != nil {
		return err
	}
	all, err := c.matches(grantedProjects)
	if err != nil {
		return err
	}
	return c.sendSelected(grantedProjects, found, allOf(all))
}

// grantedProjects are the projects on which a user has a role. Their list has fewer filters
// than that of all projects.
var grantedProjects = func() *resource {
	x := *projects
	x.filters = []string{"name", "domain_id", "enabled"}
	return &x
}()

// authSystem answers GET /v3/auth/system.
func (c *call) authSystem() error {
	if err := c.may("get_auth_system", nil); err != nil {
		return err
	}
	ids, err := c.id.Targets(c.Context(), c.caller.User.ID, c.caller.GroupIDs...)
	if err != nil {
		return err
	}
	var all []bool
	if slices.Contains(ids, identity.System) {
		all = []bool{true}
	}
	var o object
	list(&o, "system", all, func(o *object, _ bool) { o.boolean("all", true) })
	o.links(c.self(c.R))
	return c.write(http.StatusOK, &o)
}
