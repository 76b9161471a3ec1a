package catalog

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// PutGroups creates groups, or updates their descriptions, states and subgroups.
// The policies of the given groups are ignored. A subgroup that is no longer
// listed is removed with its deployments. If one group fails, nothing changes.
func (c *Catalog) PutGroups(ctx context.Context, groups []*Group, user string) error {
	return c.change(ctx, func(d *draft) error {
		seen := map[string]bool{}
		for _, g := range groups {
			if seen[g.Name] {
				return failf(Invalid, "group %s: duplicate group", g.Name)
			}
			seen[g.Name] = true
			if err := d.changeGroup(g, user); err != nil {
				return err
			}
		}
		return nil
	})
}

// changeGroup creates or updates one group.
func (d *draft) changeGroup(g *Group, user string) error {
	old := d.Group(g.Name)
	next := *g
	next.Subgroups = slices.Clone(g.Subgroups)
	if old != nil && !maps.Equal(old.Properties, g.Properties) {
		return failf(Invalid, "group %s: cannot change properties", g.Name)
	}
	if next.State == "" {
		next.State = Active
		if old != nil {
			next.State = old.State
		}
	}
	if err := checkGroup(&next); err != nil {
		return err
	}
	for i := range next.Subgroups {
		s := &next.Subgroups[i]
		s.Policies = nil
		if was := old.subgroup(s.Type); was != nil {
			s.Supported, s.Policies = was.Supported, was.Policies
		} else if err := d.checkSupported(&next, s); err != nil {
			return err
		}
	}
	d.recordLost(old, &next, user)
	d.putGroup(&next)
	if d.groups.Len() > GroupsMax {
		return failf(Full, "too many groups: the bound GroupsMax is %d", GroupsMax)
	}
	return nil
}

// subgroup returns the subgroup of a type, or nil. g may be nil.
func (g *Group) subgroup(typ string) *Subgroup {
	if g == nil {
		return nil
	}
	for i := range g.Subgroups {
		if g.Subgroups[i].Type == typ {
			return &g.Subgroups[i]
		}
	}
	return nil
}

// recordLost records that the policies of removed subgroups are undeployed.
func (d *draft) recordLost(old, next *Group, user string) {
	if old == nil {
		return
	}
	for i := range old.Subgroups {
		s := &old.Subgroups[i]
		if next.subgroup(s.Type) != nil {
			continue
		}
		for _, id := range s.Policies {
			d.record(AuditRecord{Group: old.Name, Type: s.Type, Policy: id, Action: Undeployment, User: user})
		}
	}
}

// checkGroup fails if a group is malformed.
func checkGroup(g *Group) error {
	if !tosca.ValidName(g.Name) {
		return failf(Invalid, "invalid name %.80q of a group: expected 1 to %d letters, digits, dots, hyphens and underscores", g.Name, tosca.NameBytesMax)
	}
	if g.State != Active && g.State != Passive {
		return failf(Invalid, "group %s: invalid pdpGroupState %.80q: must be null, ACTIVE, or PASSIVE", g.Name, g.State)
	}
	if len(g.Subgroups) == 0 {
		return failf(Invalid, "group %s: pdpSubgroups is empty", g.Name)
	}
	seen := map[string]bool{}
	for i := range g.Subgroups {
		s := &g.Subgroups[i]
		switch {
		case !tosca.ValidName(s.Type):
			return failf(Invalid, "group %s: invalid pdpType %.80q of a subgroup", g.Name, s.Type)
		case seen[s.Type]:
			return failf(Invalid, "group %s: duplicate subgroups of type %s", g.Name, s.Type)
		case s.Desired <= 0:
			return failf(Invalid, "group %s subgroup %s: desiredInstanceCount is %d: non-positive", g.Name, s.Type, s.Desired)
		}
		seen[s.Type] = true
	}
	return nil
}

// checkSupported fails if a new subgroup supports no types, or a type that does
// not exist.
func (d *draft) checkSupported(g *Group, s *Subgroup) error {
	if len(s.Supported) == 0 {
		return failf(Invalid, "group %s subgroup %s: supportedPolicyTypes is an empty list", g.Name, s.Type)
	}
	for _, t := range s.Supported {
		switch _, version := tosca.ParseVersion(t.Version); {
		case t.Name == "" || !version:
			return failf(Invalid, "group %s subgroup %s: invalid supported type %.80q: expected a name and a version x.y.z", g.Name, s.Type, t)
		case !strings.HasSuffix(t.Name, ".*") && d.Find(tosca.PolicyTypeSection, t.Name, t.Version) == nil:
			return failf(Invalid, "group %s subgroup %s: unknown policy type %s", g.Name, s.Type, t)
		}
	}
	return nil
}

// SetState sets the state of a group. An unknown group is ignored, as ONAP does.
func (c *Catalog) SetState(ctx context.Context, name, state string) error {
	return c.change(ctx, func(d *draft) error {
		g := d.Group(name)
		if g == nil || g.State == state {
			return nil
		}
		g = g.clone()
		g.State = state
		d.putGroup(g)
		return nil
	})
}

// RemoveGroup removes a passive group with its deployments.
func (c *Catalog) RemoveGroup(ctx context.Context, name, user string) error {
	return c.change(ctx, func(d *draft) error {
		g := d.Group(name)
		if g == nil {
			return failf(NotFound, "group not found")
		}
		if g.State == Active {
			return failf(Invalid, "group is still %s", Active)
		}
		d.recordLost(g, &Group{}, user)
		d.removeGroup(name)
		return nil
	})
}
