package keystone

import (
	"net/http"
	"slices"

	"github.com/ostiary/ostiary/internal/identity"
)

// getProject answers GET /v3/projects/{id}. The query adds the projects above it
// and below it: as a tree of ids, or as a list of those in which the caller has a
// role.
func (c *call) getProject() error {
	r, err := c.named(projects, "get")
	if err != nil {
		return err
	}
	for _, name := range []string{"parents", "subtree"} {
		if c.flag(name+"_as_list") && c.flag(name+"_as_ids") {
			return &statusError{http.StatusBadRequest, "Cannot use " + name + "_as_list and " + name + "_as_ids query params at the same time."}
		}
	}
	var o object
	o.begin(projects.singular)
	projects.show(&o, r)
	projects.links(&o, c.linkTo(projects, r.ID))
	if err := c.showParents(&o, r); err != nil {
		return err
	}
	if err := c.showSubtree(&o, r); err != nil {
		return err
	}
	o.end()
	return c.write(http.StatusOK, &o)
}

func (c *call) showParents(o *object, r *identity.Record) error {
	if !c.flag("parents_as_list") && !c.flag("parents_as_ids") {
		return nil
	}
	above, err := c.id.Above(c.Context(), r.ID)
	if err != nil {
		return err
	}
	if c.flag("parents_as_list") {
		return c.listProjects(o, "parents", above)
	}
	if len(above) == 0 {
		o.raw("parents", []byte("null"))
		return nil
	}
	o.begin("parents")
	for _, p := range above[:len(above)-1] {
		o.begin(p.ID)
	}
	o.raw(above[len(above)-1].ID, []byte("null"))
	for range above {
		o.end()
	}
	return nil
}

func (c *call) showSubtree(o *object, r *identity.Record) error {
	switch {
	case c.flag("subtree_as_list"):
		all, err := c.subtree(r.ID)
		if err != nil {
			return err
		}
		return c.listProjects(o, "subtree", all)
	case c.flag("subtree_as_ids"):
		return c.subtreeIDs(o, "subtree", r.ID)
	}
	return nil
}

// subtree returns all projects below a project.
func (c *call) subtree(id string) (all []*identity.Record, err error) {
	below, err := c.id.Below(c.Context(), id)
	for _, p := range below {
		more, err := c.subtree(p.ID)
		if err != nil {
			return nil, err
		}
		all = append(append(all, p), more...)
	}
	return all, err
}

// subtreeIDs appends a member with the ids of the projects below a project, as
// nested objects. A project without others below it is null.
func (c *call) subtreeIDs(o *object, name, id string) error {
	below, err := c.id.Below(c.Context(), id)
	if err != nil {
		return err
	}
	if len(below) == 0 {
		o.raw(name, []byte("null"))
		return nil
	}
	o.begin(name)
	for _, p := range below {
		if err := c.subtreeIDs(o, p.ID, p.ID); err != nil {
			return err
		}
	}
	o.end()
	return nil
}

// listProjects appends those of the projects in which the caller has a role.
func (c *call) listProjects(o *object, name string, all []*identity.Record) error {
	ids, err := c.id.Targets(c.Context(), c.caller.User.ID, c.caller.GroupIDs...)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(p *identity.Record) bool { return p.IsDomain || !slices.Contains(ids, p.ID) })
	list(o, name, all, func(o *object, p *identity.Record) {
		o.begin(projects.singular)
		projects.show(o, p)
		projects.links(o, c.linkTo(projects, p.ID))
		o.end()
	})
	return nil
}
