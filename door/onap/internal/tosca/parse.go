package tosca

// Parse reads a service template from a text, as YAML or as JSON. Its errors are
// *[Error].
func Parse(text []byte, yaml bool) (*Template, error) {
	parse := ParseJSON
	if yaml {
		parse = ParseYAML
	}
	v, err := parse(text)
	if err != nil {
		return nil, err
	}
	return ReadTemplate(&v)
}

// The name and the version of each template that ONAP returns.
const (
	templateName    = "ToscaServiceTemplateSimple"
	templateVersion = "1.0.0"
	// definitionsVersion is the version of the language of returned templates.
	definitionsVersion = "tosca_simple_yaml_1_1_0"
)

// Compose returns a template with the entities, in their order, in the form in
// which ONAP returns stored entities: each policy is a map of its own. A type that
// comes in several versions has its name only once; its other versions have their
// ids as names, "name:version".
func Compose(entities []*Entity) Value {
	groups := [sections]Value{}
	for _, e := range entities {
		g := &groups[e.Section]
		m := Member{Name: e.Name, Value: e.Body}
		if e.Section == PolicySection {
			g.Kind = List
			g.Items = append(g.Items, NewMap(m))
			continue
		}
		g.Kind = Map
		if g.Get(e.Name) != nil {
			m.Name = e.ID()
		}
		g.Members = append(g.Members, m)
	}
	out := NewMap(Member{Name: Definitions, Value: NewString(definitionsVersion)})
	add := func(to *Value, name string, g Value) {
		if g.Kind != Null {
			to.Members = append(to.Members, Member{Name: name, Value: g})
		}
	}
	add(&out, DataTypes, groups[DataTypeSection])
	add(&out, PolicyTypes, groups[PolicyTypeSection])
	add(&out, NodeTypes, groups[NodeTypeSection])
	topology := NewMap()
	add(&topology, Policies, groups[PolicySection])
	add(&topology, NodeTemplates, groups[NodeTemplateSection])
	if len(topology.Members) > 0 {
		add(&out, Topology, topology)
	}
	out.Members = append(out.Members, Member{Name: "name", Value: NewString(templateName)},
		Member{Name: "version", Value: NewString(templateVersion)})
	return out
}
