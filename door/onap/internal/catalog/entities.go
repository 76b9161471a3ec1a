package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// The members of a policy's metadata that name it.
const (
	metadataID      = "policy-id"
	metadataVersion = "policy-version"
)

// AddTypes adds the data types and policy types of a template. Types that exist
// with the same content are accepted.
func (c *Catalog) AddTypes(ctx context.Context, t *tosca.Template) error {
	if len(t.In(tosca.PolicyTypeSection)) == 0 {
		return failf(Invalid, "no policy types specified in the service template: expected policy_types")
	}
	return c.add(ctx, t)
}

// AddPolicies adds the policies of a template, and its types.
func (c *Catalog) AddPolicies(ctx context.Context, t *tosca.Template) error {
	if len(t.In(tosca.PolicySection)) == 0 {
		return failf(Invalid, "no policies specified in the service template: expected topology_template.policies")
	}
	return c.add(ctx, t)
}

// AddNodeTemplates adds the node templates of a template, and its types.
func (c *Catalog) AddNodeTemplates(ctx context.Context, t *tosca.Template) error {
	if len(t.In(tosca.NodeTemplateSection)) == 0 {
		return failf(Invalid, "no node templates specified in the service template: expected topology_template.node_templates")
	}
	return c.add(ctx, t)
}

func (c *Catalog) add(ctx context.Context, t *tosca.Template) error {
	return c.change(ctx, func(d *draft) error { return d.addTemplate(t) })
}

// addTemplate adds all entities of a template, and checks what they refer to.
func (d *draft) addTemplate(t *tosca.Template) error {
	var added []*tosca.Entity
	for i := range t.Entities {
		e, err := normalize(&t.Entities[i])
		if err != nil {
			return err
		}
		if old := d.Find(e.Section, e.Name, e.Version); old != nil {
			if !tosca.Equal(&old.Body, &e.Body) {
				return failf(NotAcceptable, "entity %s %s does not equal existing entity", e.Section, e.ID())
			}
			continue
		}
		if err := d.put(e); err != nil {
			return err
		}
		added = append(added, e)
	}
	for _, e := range added {
		if err := d.checkReferences(e); err != nil {
			return err
		}
	}
	return nil
}

// normalize returns an entity as it is stored: a policy has its name and version
// in its metadata. It fails if an entity that needs a version has none, and if a
// policy lacks its type.
func normalize(e *tosca.Entity) (*tosca.Entity, error) {
	if e.Section == tosca.DataTypeSection {
		return e, nil
	}
	if e.Version == "0.0.0" {
		return nil, failf(Invalid, "%s %s: the version is missing: expected three numbers with dots, for example 1.0.0", e.Section, e.Name)
	}
	typ, version := e.Type()
	switch {
	case (e.Section == tosca.PolicySection || e.Section == tosca.NodeTemplateSection) && typ == "":
		return nil, failf(Invalid, "%s %s: the member type is missing", e.Section, e.ID())
	case e.Section == tosca.PolicySection && version == "":
		return nil, failf(Invalid, "%s %s: the member type_version is missing", e.Section, e.ID())
	case e.Section != tosca.PolicySection:
		return e, nil
	}
	out := *e
	metadata := e.Body.Get(tosca.Metadata)
	if metadata == nil {
		metadata = &tosca.Value{}
	}
	m := metadata.With(metadataID, tosca.NewString(e.Name))
	m = m.With(metadataVersion, tosca.NewString(e.Version))
	out.Body = e.Body.With(tosca.Metadata, m)
	return &out, nil
}

// checkReferences fails if a type or an ancestor that an entity refers to does
// not exist, or if a policy is wrong for its type.
func (d *draft) checkReferences(e *tosca.Entity) error {
	typ, version := e.Type()
	switch e.Section {
	case tosca.PolicySection:
		if d.Find(tosca.PolicyTypeSection, typ, version) == nil {
			return failf(NotAcceptable, "policy %s: the policy type %s:%s does not exist", e.ID(), typ, version)
		}
		return d.checkPolicy(e)
	case tosca.NodeTemplateSection:
		if d.Find(tosca.NodeTypeSection, typ, version) == nil {
			return failf(NotAcceptable, "node template %s: the node type %s does not exist", e.ID(), typ)
		}
		return nil
	}
	if err := d.checkAncestors(e); err != nil {
		return err
	}
	properties := e.Properties()
	if properties == nil || e.Section == tosca.NodeTypeSection {
		return nil
	}
	for i := range properties.Members {
		p := &properties.Members[i]
		for _, t := range []string{p.Value.Get("type").Scalar(), EntryType(&p.Value)} {
			if t != "" && !builtinTypes[t] && d.Find(tosca.DataTypeSection, t, "") == nil {
				return failf(NotAcceptable, "%s %s: the data type %s of the property %s does not exist", e.Section, e.ID(), t, p.Name)
			}
		}
	}
	return nil
}

// EntryType returns the type of the entries of a list or map property, or "".
func EntryType(property *tosca.Value) string {
	schema := property.Get("entry_schema")
	if schema.Scalar() != "" {
		return schema.Scalar()
	}
	return schema.Get("type").Scalar()
}

// checkAncestors fails if an ancestor of a type does not exist or is the type
// itself.
func (w *World) checkAncestors(e *tosca.Entity) error {
	seen := map[string]bool{e.Name: true}
	for t := e; t.DerivedFrom() != "" && !isRoot(t.DerivedFrom()); {
		parent := t.DerivedFrom()
		if seen[parent] {
			return failf(NotAcceptable, "%s %s: the type %s is derived from itself", e.Section, e.ID(), parent)
		}
		seen[parent] = true
		next := w.Find(e.Section, parent, "")
		if next == nil {
			return failf(NotAcceptable, "%s %s: the ancestor %s does not exist", e.Section, e.ID(), parent)
		}
		t = next
	}
	return nil
}

// isRoot reports whether a type is one of the roots that TOSCA defines.
func isRoot(name string) bool {
	return strings.HasPrefix(name, "tosca.") && strings.HasSuffix(name, ".Root")
}

// builtinTypes are the data types that TOSCA defines (Simple Profile 1.1,
// chapters 3.2 and 5.3).
var builtinTypes = map[string]bool{
	"string": true, "integer": true, "float": true, "boolean": true, "timestamp": true, "null": true,
	"list": true, "map": true, "object": true, "range": true, "version": true,
	"scalar-unit.size": true, "scalar-unit.time": true, "scalar-unit.frequency": true,
	"tosca.datatypes.Root": true, "tosca.datatypes.TimeInterval": true, "tosca.datatypes.Credential": true,
	"tosca.datatypes.json": true, "tosca.datatypes.xml": true,
	"tosca.datatypes.network.NetworkInfo": true, "tosca.datatypes.network.PortInfo": true, "tosca.datatypes.network.PortDef": true,
}

// Ancestors returns a type and the types that it is derived from, the nearest
// one first.
func (w *World) Ancestors(e *tosca.Entity) []*tosca.Entity {
	list := []*tosca.Entity{e}
	for e != nil {
		parent := e.DerivedFrom()
		if e = w.Find(e.Section, parent, ""); e == nil || slices.Contains(list, e) {
			break
		}
		list = append(list, e)
	}
	return list
}

// Closure returns types with their ancestors, and the data types that these use,
// each once. Data types come first.
func (w *World) Closure(types []*tosca.Entity) (all []*tosca.Entity) {
	seen := map[*tosca.Entity]bool{}
	var data []*tosca.Entity
	var visit func(e *tosca.Entity)
	visit = func(e *tosca.Entity) {
		for _, a := range w.Ancestors(e) {
			if seen[a] {
				continue
			}
			seen[a] = true
			if a.Section == tosca.DataTypeSection {
				data = append(data, a)
			} else {
				all = append(all, a)
			}
			for _, t := range w.dataTypes(a) {
				visit(t)
			}
		}
	}
	for _, t := range types {
		visit(t)
	}
	return append(data, all...)
}

// dataTypes returns the stored data types that the properties of a type use.
func (w *World) dataTypes(e *tosca.Entity) (list []*tosca.Entity) {
	properties := e.Properties()
	if properties == nil {
		return nil
	}
	for i := range properties.Members {
		p := &properties.Members[i].Value
		for _, name := range []string{p.Get("type").Scalar(), EntryType(p)} {
			if t := w.Find(tosca.DataTypeSection, name, ""); t != nil {
				list = append(list, t)
			}
		}
	}
	return list
}
