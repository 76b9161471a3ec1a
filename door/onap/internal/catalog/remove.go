package catalog

import (
	"context"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// RemoveType removes a version of a policy type and returns it. It fails if the
// type does not exist or is in use.
func (c *Catalog) RemoveType(ctx context.Context, id ID) (removed *tosca.Entity, err error) {
	err = c.change(ctx, func(d *draft) error {
		if removed = d.Find(tosca.PolicyTypeSection, id.Name, id.Version); removed == nil {
			return failf(NotFound, "policy type %s not found", id)
		}
		if err := d.checkTypeUnused(removed); err != nil {
			return err
		}
		d.remove(removed)
		return nil
	})
	return removed, err
}

// checkTypeUnused fails if a group, a type or a policy uses a policy type.
func (d *draft) checkTypeUnused(t *tosca.Entity) error {
	id := ID{t.Name, t.Version}
	for _, g := range d.Groups() {
		for i := range g.Subgroups {
			for _, supported := range g.Subgroups[i].Supported {
				if supported == id {
					return failf(NotAcceptable, "policy type %s is in use, it is referenced in PDP group %s subgroup %s", id, g.Name, g.Subgroups[i].Type)
				}
			}
		}
	}
	newest := d.Find(tosca.PolicyTypeSection, t.Name, "")
	for other := range d.All(tosca.PolicyTypeSection) {
		if newest == t && len(d.Versions(tosca.PolicyTypeSection, t.Name)) == 1 && other.DerivedFrom() == t.Name {
			return failf(NotAcceptable, "policy type %s is in use, it is referenced in policy type %s", id, other.ID())
		}
	}
	for p := range d.All(tosca.PolicySection) {
		if name, version := p.Type(); name == t.Name && version == t.Version {
			return failf(NotAcceptable, "policy type %s is in use, it is referenced in policy %s", id, p.ID())
		}
	}
	return nil
}

// RemovePolicy removes a version of a policy and returns it. It fails if the
// policy does not exist or is deployed.
func (c *Catalog) RemovePolicy(ctx context.Context, id ID) (removed *tosca.Entity, err error) {
	err = c.change(ctx, func(d *draft) error {
		if removed = d.Find(tosca.PolicySection, id.Name, id.Version); removed == nil {
			return failf(NotFound, "policy %s not found", id)
		}
		for _, g := range d.Groups() {
			for i := range g.Subgroups {
				if g.Subgroups[i].version(id.Name) == id.Version {
					return failf(NotAcceptable, "policy is in use, it is deployed in PDP group %s subgroup %s", g.Name, g.Subgroups[i].Type)
				}
			}
		}
		d.remove(removed)
		return nil
	})
	return removed, err
}

// UpdateNodeTemplates replaces node templates that exist.
func (c *Catalog) UpdateNodeTemplates(ctx context.Context, t *tosca.Template) error {
	list := t.In(tosca.NodeTemplateSection)
	if len(list) == 0 {
		return failf(Invalid, "no node templates specified in the service template: expected topology_template.node_templates")
	}
	return c.change(ctx, func(d *draft) error {
		for _, e := range list {
			if _, err := normalize(e); err != nil {
				return err
			}
			if d.Find(tosca.NodeTemplateSection, e.Name, e.Version) == nil {
				return failf(NotAcceptable, "node template %s version %s does not exist", e.Name, e.Version)
			}
			if err := d.checkReferences(e); err != nil {
				return err
			}
			if err := d.put(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// RemoveNodeTemplate removes a node template and returns it. It fails if the
// template does not exist, or if the metadata of a policy name it.
func (c *Catalog) RemoveNodeTemplate(ctx context.Context, id ID) (removed *tosca.Entity, err error) {
	err = c.change(ctx, func(d *draft) error {
		if removed = d.Find(tosca.NodeTemplateSection, id.Name, id.Version); removed == nil {
			return failf(NotFound, "node template %s not found", id)
		}
		for p := range d.All(tosca.PolicySection) {
			m := p.Body.Get(tosca.Metadata)
			if m.Get("metadataSetName").Scalar() == id.Name && m.Get("metadataSetVersion").Scalar() == id.Version {
				return failf(NotAcceptable, "node template %s is in use, it is referenced in policy %s", id, p.ID())
			}
		}
		d.remove(removed)
		return nil
	})
	return removed, err
}
