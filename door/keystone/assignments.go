package keystone

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"slices"

	"github.com/ostiary/ostiary/internal/identity"
)

// assignment is a row of the list of role assignments.
type assignment struct {
	identity.Grant
	viaGroup string // group whose membership gives the role; "" in rows that are not effective
	prior    string // role that implies the role; "" in rows that are not effective
	above    string // target of the inherited grant that gives the role; "" in rows that are not effective
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

// roleAssignments answers GET /v3/role_assignments. All rows are of one revision.
func (c *call) roleAssignments() error {
	q, err := c.assignmentQuery()
	if err != nil {
		return err
	}
	if err := c.mayListAssignments(q); err != nil {
		return err
	}
	view, err := c.id.View(c.Context())
	if err != nil {
		return err
	}
	l := &assignmentList{call: c, ctx: lasting{c.Context(), c}, view: view, query: q, closures: map[string][]impliedRole{}}
	o := c.long()
	o.beginList("role_assignments")
	for a, err := range l.rows() {
		if err != nil {
			return err
		}
		o.beginElement()
		l.show(o, a)
		o.endElement()
	}
	o.endList()
	c.listLinks(o, "")
	return c.write(http.StatusOK, o)
}

// assignmentList finds and shows the rows of GET /v3/role_assignments.
type assignmentList struct {
	*call
	ctx   context.Context
	view  *identity.View
	query assignmentQuery
	one   [1]assignment // memory for the row of a grant
	// closures are the results of closure, by role.
	closures map[string][]impliedRole
}

func (c *call) mayListAssignments(q assignmentQuery) error {
	if !q.within {
		return c.may("list_role_assignments", c.listTarget())
	}
	p, err := c.lookup(identity.Project, q.project)
	if err != nil {
		return err
	}
	t := projects.targetOf(p)
	if p != nil {
		t["target.domain_id"] = p.Domain
	}
	return c.may("list_role_assignments_for_tree", t)
}

// rows yields the selected rows.
func (l *assignmentList) rows() iter.Seq2[assignment, error] {
	return func(yield func(assignment, error) bool) {
		for g, err := range l.grants() {
			var rows []assignment
			if err == nil {
				rows, err = l.rowsOf(g)
			}
			if err != nil {
				yield(assignment{}, err)
				return
			}
			for _, a := range rows {
				if !yield(a, nil) {
					return
				}
			}
		}
	}
}

// rowsOf returns the selected rows that follow from a grant.
func (l *assignmentList) rowsOf(g identity.Grant) (rows []assignment, err error) {
	if !l.query.effective {
		l.one[0].Grant = g
		rows = l.one[:]
	} else if rows, err = l.expand(g); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(a assignment) bool { return !l.selects(a) }), nil
}

// grants yields the grants that may lead to selected rows.
func (l *assignmentList) grants() iter.Seq2[identity.Grant, error] {
	q := &l.query
	if q.effective {
		return l.effectiveGrants()
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
	return l.view.Grants(l.ctx, q.user, q.group, target, q.role)
}

// effectiveGrants yields the grants that the effective rows follow from: those of
// the user and of the user's groups, or those on the target and above it.
func (l *assignmentList) effectiveGrants() iter.Seq2[identity.Grant, error] {
	q := &l.query
	var all []iter.Seq2[identity.Grant, error]
	of := func(user, group, target string) {
		all = append(all, l.view.Grants(l.ctx, user, group, target, ""))
	}
	switch {
	case q.user != "":
		of(q.user, "", "")
		groups, err := l.view.GroupsOf(l.ctx, q.user)
		if err != nil {
			return func(yield func(identity.Grant, error) bool) { yield(identity.Grant{}, err) }
		}
		for _, g := range groups {
			of("", g.ID, "")
		}
	case q.project != "" && !q.within:
		for id := q.project; id != ""; {
			of("", "", id)
			r, err := l.view.Get(identity.Project, id)
			if err != nil {
				break // an unknown project has no rows
			}
			id = r.Parent
		}
	default:
		of("", "", q.domain)
	}
	return joined(all)
}

// joined yields what the sequences yield, one after another.
func joined[T any](all []iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, each := range all {
			for x, err := range each {
				if !yield(x, err) {
					return
				}
			}
		}
	}
}

// selects returns whether a row fits the query, and whether a caller with the
// scope of a domain may see it.
func (l *assignmentList) selects(a assignment) bool {
	q := &l.query
	switch {
	case q.user != "" && a.UserID != q.user, q.group != "" && a.GroupID != q.group, q.role != "" && a.RoleID != q.role,
		q.domain != "" && a.Target != q.domain, q.system != (a.Target == identity.System) && (q.system || q.project != "" || q.domain != ""),
		q.inherited && !a.Inherited, q.project != "" && !q.within && a.Target != q.project:
		return false
	}
	own := l.credentials.DomainID
	if own == "" && !q.within {
		return true
	}
	target, err := l.view.Get(identity.Project, a.Target)
	switch {
	case a.Target == identity.System, err != nil:
		return false
	case own != "" && target.Domain != own && target.ID != own:
		return false
	}
	return !q.within || l.below(target, q.project)
}

// below returns whether a project is another one or below it.
func (l *assignmentList) below(r *identity.Record, top string) bool {
	for !r.IsDomain {
		if r.ID == top {
			return true
		}
		parent, err := l.view.Get(identity.Project, r.Parent)
		if err != nil {
			return false
		}
		r = parent
	}
	return false
}

// expand returns the effective rows of a grant: one for each user of a group, for
// each project that inherits it, and for each role that the role implies.
func (l *assignmentList) expand(g identity.Grant) (rows []assignment, err error) {
	if g.Target == identity.System {
		return nil, nil
	}
	principals := []assignment{{Grant: g}}
	if g.GroupID != "" {
		principals = nil
		members, err := l.view.Members(l.ctx, g.GroupID)
		if err != nil {
			return nil, err
		}
		for _, u := range members {
			a := assignment{Grant: g, viaGroup: g.GroupID}
			a.UserID, a.GroupID = u.ID, ""
			principals = append(principals, a)
		}
	}
	targets, above := []string{g.Target}, ""
	if g.Inherited {
		above = g.Target
		targets = l.descendants(nil, g.Target)
	}
	roles, err := l.closure(g.RoleID)
	if err != nil {
		return nil, err
	}
	for _, a := range principals {
		a.above = above
		for _, a.Target = range targets {
			for _, r := range roles {
				a.RoleID, a.prior = r.role, r.prior
				rows = append(rows, a)
			}
		}
	}
	return rows, nil
}

// descendants appends the projects below a project or domain to ids.
func (l *assignmentList) descendants(ids []string, top string) []string {
	for _, p := range l.view.Below(top) {
		ids = l.descendants(append(ids, p.ID), p.ID)
	}
	return ids
}

// impliedRole is a role and the role that implies it; prior is "" for the role
// that was granted.
type impliedRole struct{ role, prior string }

// closure returns a role with all roles that it implies, without roles of domains.
func (l *assignmentList) closure(id string) (out []impliedRole, err error) {
	if known, ok := l.closures[id]; ok {
		return known, nil
	}
	queue, seen := []impliedRole{{role: id}}, map[string]bool{id: true}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		r, err := l.view.Get(identity.Role, next.role)
		if err != nil {
			continue // the role does not exist
		}
		if r.Domain == "" {
			out = append(out, next)
		}
		implied, err := l.view.Implied(l.ctx, next.role)
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
	l.closures[id] = out
	return out, nil
}

// reference appends a record of a row: its id, and if the query wants names also
// its name and its domain.
func (l *assignmentList) reference(o *object, member string, k identity.Kind, id string) {
	o.begin(member)
	o.text("id", id)
	if l.query.names {
		if r, err := l.view.Get(k, id); err == nil {
			o.text("name", r.Name)
			if d, err := l.view.Get(identity.Project, r.Domain); err == nil {
				idAndName(o, "domain", d)
			}
		}
	}
	o.end()
}

// show appends a row.
func (l *assignmentList) show(o *object, a assignment) {
	o.begin("links")
	o.text("assignment", l.assignmentLink(a))
	if a.viaGroup != "" {
		o.text("membership", l.link("groups", a.viaGroup, "users", a.UserID))
	}
	if a.prior != "" {
		o.text("prior_role", l.link("prior_role", a.RoleID, "implies", a.prior))
	}
	o.end()
	o.begin("scope")
	if a.Target == identity.System {
		o.begin("system")
		o.boolean("all", true)
		o.end()
	} else {
		l.reference(o, l.kindOf(a.Target), identity.Project, a.Target)
	}
	if a.Inherited {
		o.text("OS-INHERIT:inherited_to", "projects")
	}
	o.end()
	if a.GroupID != "" {
		l.reference(o, "group", identity.Group, a.GroupID)
	} else {
		l.reference(o, "user", identity.User, a.UserID)
	}
	l.reference(o, "role", identity.Role, a.RoleID)
}

// kindOf returns "project" or "domain".
func (l *assignmentList) kindOf(target string) string {
	if r, err := l.view.Get(identity.Project, target); err == nil && r.IsDomain {
		return "domain"
	}
	return "project"
}

// assignmentLink returns the URL of the grant that gives a row. That of an implied
// role has the role that implies it directly, as in Keystone.
func (l *assignmentList) assignmentLink(a assignment) string {
	a.Target, a.RoleID = cmp.Or(a.above, a.Target), cmp.Or(a.prior, a.RoleID)
	principal := []string{"users", a.UserID}
	if a.GroupID != "" {
		principal = []string{"groups", a.GroupID}
	}
	if a.viaGroup != "" {
		principal = []string{"groups", a.viaGroup}
	}
	path := []string{"system"}
	if a.Target != identity.System {
		path = []string{l.kindOf(a.Target) + "s", a.Target}
	}
	if a.Inherited {
		path = append([]string{"OS-INHERIT"}, path...)
	}
	path = append(append(path, principal...), "roles", a.RoleID)
	if a.Inherited {
		path = append(path, "inherited_to_projects")
	}
	return l.link(path...)
}
