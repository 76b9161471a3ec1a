package migrate

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/ostiary/ostiary/internal/identity"
)

// Ids with which Keystone marks that there is no domain.
const (
	rootDomain = "<<keystone.domain.root>>" // the domain of domains, which is a project, too
	nullDomain = "<<null>>"                 // the domain of global roles
)

// resourceOptions are the names of the options of projects and roles by their ids
// in the database.
var resourceOptions = map[string]string{"IMMU": "immutable"}

// levelsMax bounds the level of a record in a tree. It is more than any deployment
// allows.
const levelsMax = 64

// levels returns the level of each record of a tree: the number of its ancestors,
// at most deepest. parents has the parent of each record; "" or an id that is no
// record ends a branch. A record on a cycle has the level deepest. The deployment
// refuses what is deeper than it allows and what refers to records that do not
// exist, and gives the reason.
func levels(parents map[string]string, deepest int) map[string]int {
	found := make(map[string]int, len(parents))
	for id := range parents {
		n, up := 0, parents[id]
		for n < deepest {
			above, ok := parents[up]
			if !ok {
				break
			}
			n, up = n+1, above
		}
		found[id] = n
	}
	return found
}

// eachLevel calls f for each level of a tree that has records, the upper ones
// first. f copies the records of the level.
func (m *migration) eachLevel(ctx context.Context, parents map[string]string, deepest int, f func(onLevel func(id string) bool) error) error {
	depth := levels(parents, deepest)
	used := map[int]bool{}
	for _, n := range depth {
		used[n] = true
	}
	for _, n := range slices.Sorted(maps.Keys(used)) {
		if err := f(func(id string) bool { return depth[id] == n }); err != nil {
			return err
		}
		if err := m.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// regions copies all regions, those above others first.
func (m *migration) regions(ctx context.Context) error {
	type region struct {
		record identity.Record
		err    error
	}
	var all []region
	parents := map[string]string{}
	err := m.from.each(ctx, `SELECT id, description, parent_region_id, extra FROM region ORDER BY id`, func(x row) error {
		members, err := x.extra("description", "parent_region_id")
		all = append(all, region{identity.Record{Kind: identity.Region, ID: x.text("id"), Parent: x.text("parent_region_id"),
			Members: members.With("description", x.text("description"))}, err})
		parents[x.text("id")] = x.text("parent_region_id")
		return nil
	})
	if err != nil {
		return err
	}
	depth := levels(parents, levelsMax)
	slices.SortStableFunc(all, func(a, b region) int { return cmp.Compare(depth[a.record.ID], depth[b.record.ID]) })
	for _, r := range all {
		err := r.err
		if err == nil {
			err = m.add(ctx, identity.Loaded{Record: r.record})
		} else {
			err = m.refuse(r.record.ID, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// domains copies the domains.
func (m *migration) domains(ctx context.Context) error {
	return m.projectsOf(ctx, "p.is_domain AND p.id <> '"+rootDomain+"'", func(string) bool { return true })
}

// treeMax bounds the levels of projects: a deployment allows none so deep.
const treeMax = 8

// projects copies the projects, those above others first: the table is read once
// for each level of the tree. Only ids and parents are in memory.
func (m *migration) projects(ctx context.Context) error {
	parents := map[string]string{}
	err := m.from.each(ctx, `SELECT id, parent_id FROM project WHERE NOT is_domain ORDER BY id`, func(x row) error {
		parents[x.text("id")] = x.text("parent_id")
		return nil
	})
	if err != nil {
		return err
	}
	return m.eachLevel(ctx, parents, treeMax, func(onLevel func(string) bool) error {
		return m.projectsOf(ctx, "NOT p.is_domain", onLevel)
	})
}

// projectsOf copies the projects that a condition and a function of their ids
// select.
func (m *migration) projectsOf(ctx context.Context, condition string, selected func(id string) bool) error {
	query := `SELECT p.id, p.name, p.extra, p.description, p.enabled, p.domain_id, p.parent_id, p.is_domain, o.option_id, o.option_value, t.name AS tag FROM project p
 LEFT JOIN project_option o ON o.project_id = p.id LEFT JOIN project_tag t ON t.project_id = p.id WHERE ` + condition + ` ORDER BY p.id`
	return m.from.group(ctx, query, func(rows []row) error {
		if !selected(rows[0].text("id")) {
			return nil
		}
		return m.project(ctx, rows)
	})
}

// project copies one project or domain.
func (m *migration) project(ctx context.Context, rows []row) error {
	x := rows[0]
	extra, err := x.extra("name", "description", "enabled", "domain_id", "parent_id", "is_domain", "tags", "options")
	if err != nil {
		return m.refuse(x.text("id"), err)
	}
	r := identity.Record{Kind: identity.Project, ID: x.text("id"), Name: x.text("name"), IsDomain: x.yes("is_domain"), Disabled: !x.yes("enabled"),
		Members: extra.With("description", x.text("description")).With("options", m.resourceOptions(rows, resourceOptions))}
	if tags := distinct(rows, "tag"); len(tags) > 0 {
		slices.Sort(tags)
		r.Members = r.Members.With("tags", tags)
	}
	if !r.IsDomain {
		r.Domain, r.Parent = x.text("domain_id"), x.text("parent_id")
	}
	return m.add(ctx, identity.Loaded{Record: r})
}

// roles copies the roles.
func (m *migration) roles(ctx context.Context) error {
	return m.from.group(ctx, `SELECT r.id, r.name, r.extra, r.domain_id, r.description, o.option_id, o.option_value FROM role r
 LEFT JOIN role_option o ON o.role_id = r.id ORDER BY r.id, o.option_id`, func(rows []row) error {
		x := rows[0]
		members, err := x.extra("name", "description", "domain_id", "options")
		if err != nil {
			return m.refuse(x.text("id"), err)
		}
		r := identity.Record{Kind: identity.Role, ID: x.text("id"), Name: x.text("name"), Domain: x.text("domain_id")}
		if r.Domain == nullDomain {
			r.Domain = ""
		}
		r.Members = x.with(members, "description", "description").With("options", m.resourceOptions(rows, resourceOptions))
		return m.add(ctx, identity.Loaded{Record: r})
	})
}
