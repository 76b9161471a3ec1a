package onap

import (
	"fmt"
	"strconv"

	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// listMax bounds the lists of a request to the PAP API.
const listMax = 1000

// bodyReader reads members of a request's body. After the first error all its
// methods return zero values.
type bodyReader struct{ err error }

// fail records the first error, with its place.
func (b *bodyReader) fail(v *tosca.Value, format string, args ...any) {
	if b.err == nil {
		b.err = &tosca.Error{Position: v.Position, Text: fmt.Sprintf(format, args...)}
	}
}

// list returns the items of a list. It fails if the member is missing, is not a
// list or is too long.
func (b *bodyReader) list(v *tosca.Value, name string) []tosca.Value {
	l := v.Get(name)
	switch {
	case v.Kind != tosca.Map:
		b.fail(v, "expected a map with the member %s, got %s", name, v.Kind)
	case l == nil || l.Kind != tosca.List:
		b.fail(v, "the member %s is missing or not a list", name)
	case len(l.Items) > listMax:
		b.fail(l, "%s has %d items: expected at most %d", name, len(l.Items), listMax)
	case b.err == nil:
		return l.Items
	}
	return nil
}

// text returns a string member, or "" if it is missing.
func (b *bodyReader) text(v *tosca.Value, name string) string {
	m := v.Get(name)
	if m == nil || m.Kind == tosca.Null {
		return ""
	}
	if m.Kind == tosca.List || m.Kind == tosca.Map {
		b.fail(m, "%s: expected a string, got %s", name, m.Kind)
	}
	return m.Scalar()
}

// number returns a number member, or 0 if it is missing.
func (b *bodyReader) number(v *tosca.Value, name string) int {
	text := b.text(v, name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.fail(v.Get(name), "%s: expected a whole number, got %.80q", name, text)
	}
	return n
}

// texts returns a map of strings, or nil if it is missing.
func (b *bodyReader) texts(v *tosca.Value, name string) map[string]string {
	m := v.Get(name)
	if m == nil || m.Kind == tosca.Null {
		return nil
	}
	if m.Kind != tosca.Map {
		b.fail(m, "%s: expected a map, got %s", name, m.Kind)
	}
	out := map[string]string{}
	for i := range m.Members {
		out[m.Members[i].Name] = b.text(m, m.Members[i].Name)
	}
	return out
}

// ids returns a list of names and versions.
func (b *bodyReader) ids(v *tosca.Value, list, name, version string) (ids []catalog.ID) {
	for _, item := range b.list(v, list) {
		id := catalog.ID{Name: b.text(&item, name), Version: b.text(&item, version)}
		if id.Name == "" {
			b.fail(&item, "the member %s is missing", name)
		}
		ids = append(ids, id)
	}
	return ids
}

// readDeployment reads the body of POST pdps/policies.
func readDeployment(v *tosca.Value) ([]catalog.ID, error) {
	b := bodyReader{}
	ids := b.ids(v, "policies", "policy-id", "policy-version")
	return ids, b.err
}

// readGroups reads the body of POST pdps/groups/batch. The policies of the
// groups are ignored.
func readGroups(v *tosca.Value) (groups []*catalog.Group, err error) {
	b := bodyReader{}
	for _, item := range b.list(v, "groups") {
		g := &catalog.Group{Name: b.text(&item, "name"), Description: b.text(&item, "description"),
			State: b.text(&item, "pdpGroupState"), Properties: b.texts(&item, "properties")}
		for _, s := range b.list(&item, "pdpSubgroups") {
			sub := catalog.Subgroup{Type: b.text(&s, "pdpType"), Desired: b.number(&s, "desiredInstanceCount"), Properties: b.texts(&s, "properties")}
			if s.Get("supportedPolicyTypes") != nil {
				sub.Supported = b.ids(&s, "supportedPolicyTypes", "name", "version")
			}
			g.Subgroups = append(g.Subgroups, sub)
		}
		groups = append(groups, g)
	}
	return groups, b.err
}

// readBatches reads the body of POST pdps/deployments/batch.
func readBatches(v *tosca.Value) (batches []catalog.Batch, err error) {
	b := bodyReader{}
	for _, item := range b.list(v, "groups") {
		group := b.text(&item, "name")
		seen := map[string]bool{}
		for _, s := range b.list(&item, "deploymentSubgroups") {
			batch := catalog.Batch{Group: group, Subgroup: b.text(&s, "pdpType"), Action: catalog.Action(b.text(&s, "action")),
				Policies: b.ids(&s, "policies", "name", "version")}
			switch batch.Action {
			case catalog.Add, catalog.Remove, catalog.Set:
			default:
				b.fail(&s, "invalid action %.80q: expected POST, DELETE or PATCH", batch.Action)
			}
			if seen[batch.Subgroup] && batch.Action == catalog.Set {
				b.fail(&s, "subgroup %.80q: PATCH is incompatible with the action before", batch.Subgroup)
			}
			seen[batch.Subgroup] = true
			batches = append(batches, batch)
		}
	}
	return batches, b.err
}
