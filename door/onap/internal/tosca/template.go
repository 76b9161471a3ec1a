package tosca

import (
	"strconv"
	"strings"
)

// Names of members of templates and entities.
const (
	Definitions   = "tosca_definitions_version" // version of the language
	DataTypes     = "data_types"                // map of data types
	PolicyTypes   = "policy_types"              // map of policy types
	NodeTypes     = "node_types"                // map of node types
	Topology      = "topology_template"         // map with policies and node templates
	Policies      = "policies"                  // list of maps of policies
	NodeTemplates = "node_templates"            // map of node templates
	Metadata      = "metadata"                  // map of an entity
	Properties    = "properties"                // map of an entity
)

// Bounds on entities. One more is refused.
const (
	// NameBytesMax is the length of the name of an entity, in bytes.
	NameBytesMax = 256
	// VersionPartMax is the largest number in a version.
	VersionPartMax = 999_999_999
)

// noVersion is the version of an entity that gives none, as ONAP shows it.
const noVersion = "0.0.0"

// Section is a group of entities in a template.
type Section uint8

// The sections of a template.
const (
	DataTypeSection     Section = iota // data types
	PolicyTypeSection                  // policy types
	NodeTypeSection                    // node types
	PolicySection                      // policies
	NodeTemplateSection                // node templates
	sections
)

// words are the names of an entity of each section, for errors.
var words = [sections]string{"data type", "policy type", "node type", "policy", "node template"}

// String returns the name of an entity of the section, for example "policy type".
func (s Section) String() string { return words[s] }

// Entity is a named part of a template: a type, a policy or a node template.
type Entity struct {
	Section  Section  // section of the entity
	Name     string   // name
	Version  string   // version of the form x.y.z; "0.0.0" if the text gives none
	Body     Value    // map with all members, with name and version
	Position Position // place of the name
}

// ID returns the name and the version, for example "demo.limit:1.0.0".
func (e *Entity) ID() string { return e.Name + ":" + e.Version }

// Type returns the type of a policy or node template, and its version.
func (e *Entity) Type() (name, version string) {
	return e.Body.Get("type").Scalar(), e.Body.Get("type_version").Scalar()
}

// DerivedFrom returns the name of the type that a type is derived from, or "".
func (e *Entity) DerivedFrom() string { return e.Body.Get("derived_from").Scalar() }

// Properties returns the properties, or nil if there are none.
func (e *Entity) Properties() *Value { return e.Body.Get(Properties) }

// Template is a service template.
type Template struct {
	Entities []Entity // entities in the order of the text
	// Root is the whole template. Each entity in it has its name and its version.
	Root Value
}

// In returns the entities of a section.
func (t *Template) In(s Section) (found []*Entity) {
	for i := range t.Entities {
		if t.Entities[i].Section == s {
			found = append(found, &t.Entities[i])
		}
	}
	return found
}

// ReadTemplate returns the template that a value describes. It checks names,
// versions and the kinds of the members that have a meaning here, refuses an
// entity that comes twice, and keeps unknown members. Its errors are *[Error].
func ReadTemplate(v *Value) (*Template, error) {
	r := templateReader{t: &Template{}, ids: map[[3]string]bool{}}
	if v.Kind != Map {
		return nil, errorAt(v.Position, "expected a service template, which is a map, got %s", v.Kind)
	}
	root := *v
	root.Members = append([]Member(nil), v.Members...)
	for i := range root.Members {
		if err := r.member(&root.Members[i]); err != nil {
			return nil, err
		}
	}
	r.t.Root = root
	return r.t, nil
}

// templateReader collects the entities of a template.
type templateReader struct {
	t *Template
	// ids are the sections, names and versions so far.
	ids map[[3]string]bool
}

// member reads a member of the template and replaces its value by one whose
// entities have names and versions.
func (r *templateReader) member(m *Member) (err error) {
	switch m.Name {
	case Definitions, "name", "version", "description":
		return expectScalar(m)
	case DataTypes:
		m.Value, err = r.entities(DataTypeSection, m)
	case PolicyTypes:
		m.Value, err = r.entities(PolicyTypeSection, m)
	case NodeTypes:
		m.Value, err = r.entities(NodeTypeSection, m)
	case Topology:
		m.Value, err = r.topology(m)
	}
	return err
}

// topology reads the topology template.
func (r *templateReader) topology(m *Member) (Value, error) {
	out := m.Value
	if out.Kind == Null {
		return out, nil
	}
	if err := expect(m, Map); err != nil {
		return out, err
	}
	out.Members = append([]Member(nil), out.Members...)
	for i := range out.Members {
		var err error
		switch part := &out.Members[i]; part.Name {
		case Policies:
			part.Value, err = r.policies(part)
		case NodeTemplates:
			part.Value, err = r.entities(NodeTemplateSection, part)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// policies reads the list of policies.
func (r *templateReader) policies(m *Member) (Value, error) {
	out := m.Value
	if out.Kind == Null {
		return out, nil
	}
	if err := expect(m, List); err != nil {
		return out, err
	}
	out.Items = append([]Value(nil), out.Items...)
	for i := range out.Items {
		item := Member{Name: "a policy in the list", Value: out.Items[i], Position: out.Items[i].Position}
		var err error
		if out.Items[i], err = r.entities(PolicySection, &item); err != nil {
			return out, err
		}
	}
	return out, nil
}

// entities reads a map of entities.
func (r *templateReader) entities(s Section, m *Member) (Value, error) {
	out := m.Value
	if out.Kind == Null {
		return out, nil
	}
	if err := expect(m, Map); err != nil {
		return out, err
	}
	out.Members = append([]Member(nil), out.Members...)
	for i := range out.Members {
		e, err := readEntity(s, &out.Members[i])
		if err != nil {
			return out, err
		}
		id := [3]string{s.String(), e.Name, e.Version}
		if r.ids[id] {
			return out, errorAt(e.Position, "the %s %s comes twice", s, shown(e.ID()))
		}
		r.ids[id] = true
		r.t.Entities = append(r.t.Entities, e)
		out.Members[i].Value = e.Body
	}
	return out, nil
}

// readEntity reads one entity.
func readEntity(s Section, m *Member) (e Entity, err error) {
	e = Entity{Section: s, Name: m.Name, Version: noVersion, Position: m.Position}
	if err := checkName(s, m.Name, m.Position); err != nil {
		return e, err
	}
	if err := expect(m, Map); err != nil {
		return e, err
	}
	for i := range m.Value.Members {
		if err := checkMember(s, m, &m.Value.Members[i]); err != nil {
			return e, err
		}
	}
	if version := m.Value.Get("version"); version.Scalar() != "" {
		e.Version = version.Scalar()
	}
	e.Body = m.Value.With("name", NewString(e.Name))
	e.Body = e.Body.With("version", NewString(e.Version))
	return e, nil
}

// checkMember checks a member of an entity.
func checkMember(s Section, entity, m *Member) error {
	if m.Value.Kind == Null {
		return nil
	}
	switch m.Name {
	case "name":
		if err := expectScalar(m); err != nil {
			return err
		}
		if m.Value.Text != entity.Name {
			return errorAt(m.Value.Position, "the %s %s has the name %s: expected the same name, or none", s, shown(entity.Name), shown(m.Value.Text))
		}
	case "version", "type_version":
		if err := expectScalar(m); err != nil {
			return err
		}
		return checkVersion(m)
	case "type", "derived_from", "description":
		return expectScalar(m)
	case Metadata:
		return expect(m, Map)
	case Properties:
		if err := expect(m, Map); err != nil || s == PolicySection || s == NodeTemplateSection {
			return err
		}
		return checkDefinitions(&m.Value)
	}
	return nil
}

// checkDefinitions checks the definitions of properties of a type.
func checkDefinitions(properties *Value) error {
	for i := range properties.Members {
		p := &properties.Members[i]
		if err := expect(p, Map); err != nil {
			return err
		}
		for j := range p.Value.Members {
			if err := checkDefinition(&p.Value.Members[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDefinition checks a member of the definition of a property.
func checkDefinition(m *Member) error {
	if m.Value.Kind == Null {
		return nil
	}
	switch m.Name {
	case "type", "description":
		return expectScalar(m)
	case Metadata:
		return expect(m, Map)
	case "constraints":
		return expect(m, List)
	case "entry_schema", "key_schema":
		if m.Value.Kind == String {
			return nil // the short form, which names only the type
		}
		return expect(m, Map)
	}
	return nil
}

// expect fails if the value of a member has another kind.
func expect(m *Member, kind Kind) error {
	if m.Value.Kind != kind {
		return errorAt(m.Value.Position, "%s: expected %s, got %s", shown(m.Name), kind, m.Value.Kind)
	}
	return nil
}

// expectScalar fails if a member is a list or a map.
func expectScalar(m *Member) error {
	if k := m.Value.Kind; k == List || k == Map {
		return errorAt(m.Value.Position, "%s: expected a string, got %s", shown(m.Name), k)
	}
	return nil
}

// checkName fails if the name of an entity has another form than
// [A-Za-z0-9._-]+, or is too long.
func checkName(s Section, name string, at Position) error {
	if !ValidName(name) {
		return errorAt(at, "invalid name %s of a %s: expected 1 to %d letters, digits, dots, hyphens and underscores", shown(name), s, NameBytesMax)
	}
	return nil
}

// ValidName reports whether a text may be the name of an entity.
func ValidName(name string) bool {
	valid := name != "" && len(name) <= NameBytesMax
	for i := 0; i < len(name) && valid; i++ {
		c := name[i]
		valid = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
	}
	return valid
}

// checkVersion fails if a version does not have the form x.y.z.
func checkVersion(m *Member) error {
	if _, ok := ParseVersion(m.Value.Text); !ok {
		return errorAt(m.Value.Position, "invalid %s %s: expected three numbers with dots, for example 1.0.0", m.Name, shown(m.Value.Text))
	}
	return nil
}

// ParseVersion returns the numbers of a version of the form x.y.z. It refuses
// leading zeros, signs and numbers above [VersionPartMax].
func ParseVersion(text string) (numbers [3]int, ok bool) {
	for i := range numbers {
		part, rest, more := strings.Cut(text, ".")
		if more != (i < 2) {
			return numbers, false
		}
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > VersionPartMax || strconv.Itoa(n) != part {
			return numbers, false
		}
		numbers[i], text = n, rest
	}
	return numbers, true
}

// CompareVersions returns -1, 0 or 1 if version a is older than b, equal or
// newer. An invalid version is older than each valid one.
func CompareVersions(a, b string) int {
	x, _ := ParseVersion(a)
	y, _ := ParseVersion(b)
	for i := range x {
		switch {
		case x[i] < y[i]:
			return -1
		case x[i] > y[i]:
			return 1
		}
	}
	return 0
}
