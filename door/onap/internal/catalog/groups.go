package catalog

import (
	"slices"
	"strings"
	"time"
)

// The states of a group.
const (
	Active  = "ACTIVE"  // the group's PDPs decide
	Passive = "PASSIVE" // the group's PDPs refuse decisions
)

// The group and the type of the PDP that this program is.
const (
	DefaultGroup = "defaultGroup"
	XACML        = "xacml"
	Instance     = "xacml-ostiary" // id of the PDP's only instance
)

// Group is a PDP group. A group in a [World] never changes.
type Group struct {
	Name        string            `json:"name"`                  // name
	Description string            `json:"description,omitempty"` // for people
	State       string            `json:"pdpGroupState"`         // [Active] or [Passive]
	Properties  map[string]string `json:"properties,omitempty"`  // any
	Subgroups   []Subgroup        `json:"pdpSubgroups"`          // subgroups, each type once
}

// Subgroup is the part of a group with PDPs of one type.
type Subgroup struct {
	Type       string            `json:"pdpType"`              // type of the PDPs, for example "xacml"
	Supported  []ID              `json:"supportedPolicyTypes"` // supported types; a name may end with ".*"
	Policies   []ID              `json:"policies"`             // deployed policies
	Desired    int               `json:"desiredInstanceCount"` // desired number of PDPs
	Properties map[string]string `json:"properties,omitempty"` // any
}

// Instances returns the number of PDPs in a subgroup of a group: this program is
// the only one, and belongs to "xacml" of "defaultGroup".
func (g *Group) Instances(s *Subgroup) int {
	if g.Name == DefaultGroup && s.Type == XACML {
		return 1
	}
	return 0
}

// clone returns a copy whose lists can be changed.
func (g *Group) clone() *Group {
	out := *g
	out.Subgroups = slices.Clone(g.Subgroups)
	for i := range out.Subgroups {
		out.Subgroups[i].Policies = slices.Clone(g.Subgroups[i].Policies)
	}
	return &out
}

// supports reports whether a subgroup supports a policy type.
func (s *Subgroup) supports(t ID) bool {
	for _, supported := range s.Supported {
		prefix, wild := strings.CutSuffix(supported.Name, "*")
		if supported == t || wild && strings.HasSuffix(prefix, ".") && strings.HasPrefix(t.Name, prefix) {
			return true
		}
	}
	return false
}

// version returns the deployed version of a policy, or "".
func (s *Subgroup) version(name string) string {
	for _, id := range s.Policies {
		if id.Name == name {
			return id.Version
		}
	}
	return ""
}

// defaultGroup returns the group of a new catalog.
func defaultGroup() *Group {
	const first = "1.0.0"
	s := Subgroup{Type: XACML, Desired: 1}
	for _, name := range []string{
		"onap.policies.controlloop.guard.common.FrequencyLimiter", "onap.policies.controlloop.guard.common.MinMax",
		"onap.policies.controlloop.guard.common.Blacklist", "onap.policies.controlloop.guard.common.Filter",
		"onap.policies.controlloop.guard.coordination.FirstBlocksSecond", "onap.policies.monitoring.*",
		"onap.policies.optimization.*", "onap.policies.optimization.resource.*", "onap.policies.optimization.service.*",
		"onap.policies.native.Xacml", "onap.policies.native.ToscaXacml", "onap.policies.Naming", "onap.policies.match.*",
	} {
		s.Supported = append(s.Supported, ID{name, first})
	}
	return &Group{Name: DefaultGroup, Description: "The group of the PDP of this server.", State: Active, Subgroups: []Subgroup{s}}
}

// Group returns a group, or nil.
func (w *World) Group(name string) *Group {
	g, _ := w.groups.Get(name)
	return g
}

// Groups returns all groups in the order of their names.
func (w *World) Groups() (list []*Group) {
	w.groups.Ascend("", func(_ string, g *Group) bool {
		list = append(list, g)
		return true
	})
	return list
}

// Passive reports whether the PDP of this program is passive: its group is
// passive or does not exist.
func (w *World) Passive() bool {
	g := w.Group(DefaultGroup)
	return g == nil || g.State != Active
}

// Deployed returns the policies that are deployed to the PDP of this program.
func (w *World) Deployed() []ID {
	if g := w.Group(DefaultGroup); g != nil {
		for i := range g.Subgroups {
			if g.Subgroups[i].Type == XACML {
				return g.Subgroups[i].Policies
			}
		}
	}
	return nil
}

// Actions of audit records.
const (
	Deployment   = "DEPLOYMENT"   // a policy was deployed
	Undeployment = "UNDEPLOYMENT" // a policy was undeployed
)

// AuditRecord records that a policy was deployed or undeployed.
type AuditRecord struct {
	ID        int64     `json:"auditId"`        // number of the record, from 1
	Group     string    `json:"pdpGroup"`       // group
	Type      string    `json:"pdpType"`        // type of the subgroup
	Policy    ID        `json:"policy"`         // the policy
	Action    string    `json:"action"`         // [Deployment] or [Undeployment]
	Timestamp time.Time `json:"timestamp"`      // time, in whole seconds
	User      string    `json:"user,omitempty"` // name of the caller; "" if it is not known
}

// AuditFilter selects audit records. The zero value selects the newest ones.
type AuditFilter struct {
	Group    string    // group; "" selects all
	Policy   ID        // policy; an empty name selects all
	From, To time.Time // bounds of the time, inclusive; zero means none
	Max      int       // largest number of records
}

// Audit returns the newest records that a filter selects, the newest one first.
func (w *World) Audit(f AuditFilter) []*AuditRecord {
	list := []*AuditRecord{}
	for id := w.lastAudit; id > 0 && len(list) < f.Max; id-- {
		r, ok := w.audit.Get(id)
		if !ok {
			break // older records were removed
		}
		if (f.Group == "" || r.Group == f.Group) && (f.Policy.Name == "" || r.Policy == f.Policy) &&
			(f.From.IsZero() || !r.Timestamp.Before(f.From)) && (f.To.IsZero() || !r.Timestamp.After(f.To)) {
			list = append(list, r)
		}
	}
	return list
}
