package keystone

import (
	"net/http"

	"github.com/ostiary/ostiary/identity"
	"github.com/ostiary/ostiary/identity/access"
)

// assignment is a row of the list of role assignments.
type assignment struct {
	identity.Grant
	viaGroup string // group whose membership gives the role; "" in rows that are not effective
	prior    string // role that implies the role; "" in rows that are not effective
}

// assignmentQuery is the query of GET /v3/role_assignments.
type assignmentQuery struct {
	user, group, role string // ids that rows must have; "" selects all
	project, domain   string // id of the target; "" selects all
	system            bool   // the target is the system
	inherited         bool   // only grants that hold below their target
	effective         bool   // rows of users, with inherited and implied roles
	names             bool   // rows have names, not only ids
	within            bool   // also projects below the project
}

func (c *call) assignmentQuery() (q assignmentQuery, err error) {
	q = assignmentQuery{
		user: c.query.Get("user.id"), group: c.query.Get("group.id"), role: c.query.Get("role.id"),
		project: c.query.Get("scope.project.id"), domain: c.query.Get("scope.domain.id"), system: c.query.Has("scope.system"),
		effective: c.flag("effective"), names: c.flag("include_names"), within: c.flag("include_subtree"),
		inherited: c.query.Has("scope.OS-INHERIT:inherited_to"),
	}
	bad := func(text string) error { return &statusError{http.StatusBadRequest, text} }
	switch {
	case q.user != "" && q.group != "":
		err = bad("Specify a user or group, not both")
	case q.project != "" && q.domain != "":
		err = bad("Specify a domain or project, not both")
	case q.effective && q.group != "":
		err = bad("Combining effective and group filter will always result in an empty list.")
	case q.effective && q.domain != "" && q.inherited:
		err = bad("Combining effective, domain and inherited filters will always result in an empty list.")
	case q.within && q.project == "":
		err = bad("scope.project.id must be specified if include_subtree is also specified")
	}
	return q, err
}

// roleAssignments answers GET /v3/role_assignments.
func (c *call) roleAssignments() error {
	q, err := c.assignmentQuery()
	if err != nil {
		return err
	}
	if err := c.mayListAssignments(q); err != nil {
		return err
	}
	rows, err := c.assignments(q)
	if err != nil {
		return err
	}
	n := namer{c, map[string]*identity.Record{}}
	var o object
	list(&o, "role_assignments", rows, func(o *object, a assignment) { c.showAssignment(o, a, q, n) })
	c.listLinks(&o, "")
	return c.write(http.StatusOK, &o)
}

func (c *call) mayListAssignments(q assignmentQuery) error {
	if !q.within {
		return c.may("list_role_assignments", access.Target{"target.domain_id": c.listedDomain()})
	}
	p, err := c.lookup(identity.Project, q.project)
	if err != nil {
		return err
	}
	return c.may("list_role_assignments_for_tree", projects.targetOf(p))
}

// assignments returns the selected rows.
func (c *call) assignments(q assignmentQuery) (rows []assignment, err error) {
	grants, err := c.grants(q)
	if err != nil {
		return nil, err
	}
	for _, g := range grants {
		expanded := []assignment{{Grant: g}}
		if q.effective {
			if expanded, err = c.expand(g); err != nil {
				return nil, err
			}
		}
		for _, a := range expanded {
			if ok, err := c.selects(q, a); err != nil {
				return nil, err
			} else if ok {
				rows = append(rows, a)
			}
		}
	}
	return rows, nil
}

// grants returns the grants that may lead to selected rows.
func (c *call) grants(q assignmentQuery) ([]identity.Grant, error) {
	ctx := c.r.Context()
	if q.effective {
		return c.effectiveGrants(q)
	}
	target := q.project
	switch {
	case q.within:
		target = ""
	case q.domain != "":
		target = q.domain
	case q.system:
		target = identity.System
	}
	return c.id.Grants(ctx, q.user, q.group, target, q.role)
}

// effectiveGrants returns the grants that the effective rows follow from: those
// of the user and of the user's groups, or those on the target and above it.
func (c *call) effectiveGrants(q assignmentQuery) (grants []identity.Grant, err error) {
	ctx := c.r.Context()
	add := func(user, group, target string) {
		more, e := c.id.Grants(ctx, user, group, target, "")
		if grants = append(grants, more...); err == nil {
			err = e
		}
	}
	switch {
	case q.user != "":
		add(q.user, "", "")
		groups, e := c.id.GroupsOf(ctx, q.user)
		if e != nil {
			return nil, e
		}
		for _, g := range groups {
			add("", g.ID, "")
		}
	case q.project != "" && !q.within:
		for id := q.project; id != ""; {
			add("", "", id)
			r, e := c.lookup(identity.Project, id)
			if e != nil {
				return nil, e
			}
			if r == nil {
				break // an unknown project has no rows
			}
			id = r.Parent
		}
	default:
		add("", "", q.domain)
	}
	return grants, err
}

// selects returns whether a row fits the query, and whether a caller with the
// scope of a domain may see it.
func (c *call) selects(q assignmentQuery, a assignment) (bool, error) {
	switch {
	case q.user != "" && a.UserID != q.user, q.group != "" && a.GroupID != q.group, q.role != "" && a.RoleID != q.role,
		q.domain != "" && a.Target != q.domain, q.system != (a.Target == identity.System) && (q.system || q.project != "" || q.domain != ""),
		q.inherited && !a.Inherited, q.project != "" && !q.within && a.Target != q.project:
		return false, nil
	}
	own := c.credentials.DomainID
	if own == "" && !q.within {
		return true, nil
	}
	if a.Target == identity.System {
		return false, nil
	}
	target, err := c.lookup(identity.Project, a.Target)
	if err != nil || target == nil { // nil: removed meanwhile
		return false, err
	}
	if own != "" && target.Domain != own && target.ID != own {
		return false, nil
	}
	if !q.within {
		return true, nil
	}
	return c.below(target, q.project)
}

// below returns whether a project is another one or below it.
func (c *call) below(r *identity.Record, top string) (bool, error) {
	for !r.IsDomain {
		if r.ID == top {
			return true, nil
		}
		parent, err := c.id.Get(c.r.Context(), identity.Project, r.Parent)
		if err != nil {
			return false, err
		}
		r = parent
	}
	return false, nil
}

// expand returns the effective rows of a grant: one for each user of a group, for
// each project that inherits it, and for each role that the role implies.
func (c *call) expand(g identity.Grant) (rows []assignment, err error) {
	ctx := c.r.Context()
	if g.Target == identity.System {
		return nil, nil
	}
	principals := []assignment{{Grant: g}}
	if g.GroupID != "" {
		principals = nil
		members, err := c.id.Members(ctx, g.GroupID)
		if err != nil {
			return nil, err
		}
		for _, u := range members {
			a := assignment{Grant: g, viaGroup: g.GroupID}
			a.UserID, a.GroupID = u.ID, ""
			principals = append(principals, a)
		}
	}
	targets := []string{g.Target}
	if g.Inherited {
		if targets, err = c.descendants(g.Target); err != nil {
			return nil, err
		}
	}
	roles, err := c.closure(g.RoleID)
	if err != nil {
		return nil, err
	}
	for _, a := range principals {
		for _, a.Target = range targets {
			for _, r := range roles {
				a.RoleID, a.prior = r.role, r.prior
				rows = append(rows, a)
			}
		}
	}
	return rows, nil
}

// descendants returns the projects below a project or domain.
func (c *call) descendants(top string) (ids []string, err error) {
	all, _, err := c.id.List(c.r.Context(), identity.ListRequest{Kind: identity.Project, Match: func(r *identity.Record) bool { return !r.IsDomain }})
	if err != nil {
		return nil, err
	}
	parent := map[string]string{}
	for _, r := range all {
		parent[r.ID] = r.Parent
	}
	for _, r := range all {
		for id := r.Parent; id != ""; id = parent[id] {
			if id == top {
				ids = append(ids, r.ID)
				break
			}
		}
	}
	return ids, nil
}

// impliedRole is a role and the role that implies it; prior is "" for the role
// that was granted.
type impliedRole struct{ role, prior string }

// closure returns a role with all roles that it implies, without roles of domains.
func (c *call) closure(id string) (out []impliedRole, err error) {
	queue, seen := []impliedRole{{role: id}}, map[string]bool{id: true}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		r, err := c.lookup(identity.Role, next.role)
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue // removed meanwhile
		}
		if r.Domain == "" {
			out = append(out, next)
		}
		implied, err := c.id.Implied(c.r.Context(), next.role)
		if err != nil {
			return nil, err
		}
		for _, i := range implied {
			if !seen[i] {
				seen[i] = true
				queue = append(queue, impliedRole{i, next.role})
			}
		}
	}
	return out, nil
}

// namer finds records for include_names, each once.
type namer struct {
	*call
	found map[string]*identity.Record
}

func (n namer) get(k identity.Kind, id string) *identity.Record {
	key := string(k) + "/" + id
	r, ok := n.found[key]
	if !ok {
		r, _ = n.id.Get(n.r.Context(), k, id)
		n.found[key] = r
	}
	return r
}

// reference appends a record of a row: its id, and with names also its name and
// its domain.
func (n namer) reference(o *object, member string, k identity.Kind, id string, names bool) {
	o.begin(member)
	o.text("id", id)
	if r := n.get(k, id); names && r != nil {
		o.text("name", r.Name)
		if d := n.get(identity.Project, r.Domain); d != nil {
			idAndName(o, "domain", d)
		}
	}
	o.end()
}

// showAssignment appends a row.
func (c *call) showAssignment(o *object, a assignment, q assignmentQuery, n namer) {
	o.begin("links")
	o.text("assignment", c.assignmentLink(a))
	if a.viaGroup != "" {
		o.text("membership", c.link("groups", a.viaGroup, "users", a.UserID))
	}
	if a.prior != "" {
		o.text("prior_role", c.link("prior_role", a.RoleID, "implies", a.prior))
	}
	o.end()
	o.begin("scope")
	if a.Target == identity.System {
		o.begin("system")
		o.boolean("all", true)
		o.end()
	} else {
		member := "project"
		if r := n.get(identity.Project, a.Target); r != nil && r.IsDomain {
			member = "domain"
		}
		n.reference(o, member, identity.Project, a.Target, q.names)
	}
	if a.Inherited {
		o.text("OS-INHERIT:inherited_to", "projects")
	}
	o.end()
	if a.GroupID != "" {
		n.reference(o, "group", identity.Group, a.GroupID, q.names)
	} else {
		n.reference(o, "user", identity.User, a.UserID, q.names)
	}
	n.reference(o, "role", identity.Role, a.RoleID, q.names)
}

// assignmentLink returns the URL of the grant behind a row.
func (c *call) assignmentLink(a assignment) string {
	principal := []string{"users", a.UserID}
	if a.GroupID != "" {
		principal = []string{"groups", a.GroupID}
	}
	if a.viaGroup != "" {
		principal = []string{"groups", a.viaGroup}
	}
	var path []string
	switch r, _ := c.id.Get(c.r.Context(), identity.Project, a.Target); {
	case a.Target == identity.System:
		path = []string{"system"}
	case r != nil && r.IsDomain:
		path = []string{"domains", a.Target}
	default:
		path = []string{"projects", a.Target}
	}
	if a.Inherited {
		path = append([]string{"OS-INHERIT"}, path...)
	}
	path = append(append(path, principal...), "roles", a.RoleID)
	if a.Inherited {
		path = append(path, "inherited_to_projects")
	}
	return c.link(path...)
}
