package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// Action is what a [Batch] does with the policies of a subgroup.
type Action string

// The actions.
const (
	Add    Action = "POST"   // deploy the policies
	Remove Action = "DELETE" // undeploy the policies
	Set    Action = "PATCH"  // deploy the policies and undeploy all others
)

// Batch changes the deployed policies of a subgroup.
type Batch struct {
	Group    string // name of the group
	Subgroup string // type of the subgroup
	Action   Action // what to do
	Policies []ID   // policies; a version may be a prefix of the version's numbers or ""
}

// Deploy deploys policies to each subgroup that supports their types. A policy
// without a version means the newest one. A policy that is deployed already is
// accepted. If one policy fails, none is deployed. user is recorded.
func (c *Catalog) Deploy(ctx context.Context, policies []ID, user string) error {
	return c.change(ctx, func(d *draft) error {
		for _, id := range policies {
			if err := d.deploy(id, user); err != nil {
				return err
			}
		}
		return nil
	})
}

// deploy deploys one policy.
func (d *draft) deploy(id ID, user string) error {
	p, err := d.policy(id, NotFound)
	if err != nil {
		return err
	}
	name, version := p.Type()
	typ, id := ID{name, version}, ID{p.Name, p.Version}
	supported := false
	for _, g := range d.Groups() {
		next := g.clone()
		for i := range next.Subgroups {
			s := &next.Subgroups[i]
			if !s.supports(typ) {
				continue
			}
			supported = true
			switch deployed := s.version(id.Name); {
			case deployed == id.Version:
				continue
			case deployed != "":
				return failf(Invalid, "group %s subgroup %s policy %s %s different version already deployed: %s", g.Name, s.Type, id.Name, id.Version, deployed)
			case g.Instances(s) == 0:
				return failf(Invalid, "group %s subgroup %s has no active PDPs", g.Name, s.Type)
			}
			if err := d.checkPolicy(p); err != nil {
				return err
			}
			s.Policies = append(s.Policies, id)
			d.putGroup(next)
			d.record(AuditRecord{Group: g.Name, Type: s.Type, Policy: id, Action: Deployment, User: user})
		}
	}
	if !supported {
		return failf(Invalid, "policy not supported by any PDP group: %s of type %s", id, typ)
	}
	return nil
}

// policy returns the policy that a request names: the newest one whose version is
// the given one, or begins with its numbers.
func (d *draft) policy(id ID, missing Kind) (*tosca.Entity, error) {
	if id.Name == "" {
		return nil, failf(Invalid, "the name of a policy is missing")
	}
	_, exact := tosca.ParseVersion(id.Version)
	if _, major := tosca.ParseVersion(id.Version + ".0.0"); id.Version != "" && !exact && !major {
		return nil, failf(Invalid, "policy %s: invalid version %q: expected x.y.z or x", id.Name, id.Version)
	}
	list := d.Versions(tosca.PolicySection, id.Name)
	for i := len(list) - 1; i >= 0; i-- {
		if matches(id.Version, list[i].Version) {
			return list[i], nil
		}
	}
	return nil, failf(missing, "cannot find policy: %s %s", id.Name, id.Version)
}

// matches reports whether a version is the requested one: equal, or one of the
// requested major version, or any if none is requested.
func matches(requested, version string) bool {
	return requested == "" || requested == version || !strings.Contains(requested, ".") && strings.HasPrefix(version, requested+".")
}

// Undeploy undeploys a policy from all subgroups. An empty version means each
// version. It fails if the policy is deployed nowhere.
func (c *Catalog) Undeploy(ctx context.Context, id ID, user string) error {
	return c.change(ctx, func(d *draft) error {
		found := false
		for _, g := range d.Groups() {
			next := g.clone()
			for i := range next.Subgroups {
				s := &next.Subgroups[i]
				version := s.version(id.Name)
				if version == "" || !matches(id.Version, version) {
					continue
				}
				found = true
				d.undeploy(next, s, ID{id.Name, version}, user)
			}
		}
		if !found {
			return failf(Invalid, "policy not found in any PDP group: %s %s", id.Name, id.Version)
		}
		return nil
	})
}

// undeploy removes a policy from a subgroup of a group that can be changed.
func (d *draft) undeploy(g *Group, s *Subgroup, id ID, user string) {
	s.Policies = slices.DeleteFunc(s.Policies, func(p ID) bool { return p == id })
	d.putGroup(g)
	d.record(AuditRecord{Group: g.Name, Type: s.Type, Policy: id, Action: Undeployment, User: user})
}

// Apply changes the deployed policies of subgroups. If one change fails, nothing
// changes. user is recorded.
func (c *Catalog) Apply(ctx context.Context, batches []Batch, user string) error {
	return c.change(ctx, func(d *draft) error {
		for i := range batches {
			if err := d.apply(&batches[i], user); err != nil {
				return err
			}
		}
		return nil
	})
}

// apply makes one change.
func (d *draft) apply(b *Batch, user string) error {
	g := d.Group(b.Group)
	if g == nil {
		return failf(Invalid, "unknown group %q", b.Group)
	}
	g = g.clone()
	i := slices.IndexFunc(g.Subgroups, func(s Subgroup) bool { return s.Type == b.Subgroup })
	if i < 0 {
		return failf(Invalid, "group %s: unknown subgroup %q", g.Name, b.Subgroup)
	}
	s := &g.Subgroups[i]
	named := make([]ID, len(b.Policies))
	for j, id := range b.Policies {
		var err error
		if named[j], err = d.resolve(g, s, id); err != nil {
			return err
		}
	}
	for _, old := range slices.Clone(s.Policies) {
		if slices.Contains(named, old) == (b.Action == Remove) && b.Action != Add {
			d.undeploy(g, s, old, user)
		}
	}
	for _, id := range named {
		if b.Action != Remove && !slices.Contains(s.Policies, id) {
			s.Policies = append(s.Policies, id)
			d.putGroup(g)
			d.record(AuditRecord{Group: g.Name, Type: s.Type, Policy: id, Action: Deployment, User: user})
		}
	}
	return nil
}

// resolve returns the full id of a policy that a batch names for a subgroup.
func (d *draft) resolve(g *Group, s *Subgroup, id ID) (ID, error) {
	if deployed := s.version(id.Name); deployed != "" {
		if !matches(id.Version, deployed) {
			return id, failf(Invalid, "group %s subgroup %s policy %s %s different version already deployed: %s", g.Name, s.Type, id.Name, id.Version, deployed)
		}
		return ID{id.Name, deployed}, nil
	}
	p, err := d.policy(id, Invalid)
	if err != nil {
		return id, err
	}
	name, version := p.Type()
	switch {
	case !s.supports(ID{name, version}):
		return id, failf(Invalid, "group %s subgroup %s policy %s: not a supported policy for the subgroup", g.Name, s.Type, p.ID())
	case g.Instances(s) == 0:
		return id, failf(Invalid, "group %s subgroup %s has no active PDPs", g.Name, s.Type)
	}
	return ID{p.Name, p.Version}, d.checkPolicy(p)
}
