package scenario

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/door/permify/language"
)

// Coverage is how much of a schema a file's data and assertions cover.
type Coverage struct {
	// Entities are the entities of the schema, by name.
	Entities []EntityCoverage
	// Relationships, Attributes and Assertions are the coverage of the whole
	// schema, in percent. 100 if the schema has nothing of the kind.
	Relationships, Attributes, Assertions int
}

// EntityCoverage is the coverage of one entity.
type EntityCoverage struct {
	// Name is the entity's name.
	Name string
	// Relationships counts the subject types of relations, Attributes counts
	// attributes and Assertions counts permissions.
	Relationships, Attributes, Assertions Part
}

// Part is the coverage of one kind of definitions.
type Part struct {
	// Covered is the number of covered definitions, and All the number of all.
	Covered, All int
	// Missing lists the definitions that are not covered: "doc#owner@user",
	// "doc$public", "doc#view".
	Missing []string
}

// Percent returns Covered in percent of All; 100 if All is 0.
func (p *Part) Percent() int {
	if p.All == 0 {
		return 100
	}
	return p.Covered * 100 / p.All
}

// count adds one definition.
func (p *Part) count(name string, covered map[string]bool) {
	p.All++
	if covered[name] {
		p.Covered++
	} else {
		p.Missing = append(p.Missing, name)
	}
}

// Cover compares a file with its schema. A subject type of a relation is
// covered by a relationship, an attribute by a value, and a permission by an
// assertion.
func Cover(f *File, s *language.Schema) Coverage {
	covered := coveredBy(f)
	var out Coverage
	var sum [3]Part
	for _, e := range s.Entities {
		c := EntityCoverage{Name: e.Name}
		for _, st := range e.Statements {
			switch st.Kind {
			case language.Relation:
				for _, t := range st.Types {
					c.Relationships.count(e.Name+"#"+st.Name+t.String(), covered)
				}
			case language.Attribute:
				c.Attributes.count(e.Name+"$"+st.Name, covered)
			case language.Permission:
				c.Assertions.count(e.Name+"#"+st.Name, covered)
			}
		}
		for i, p := range []*Part{&c.Relationships, &c.Attributes, &c.Assertions} {
			sum[i].Covered += p.Covered
			sum[i].All += p.All
		}
		out.Entities = append(out.Entities, c)
	}
	out.Relationships, out.Attributes, out.Assertions = sum[0].Percent(), sum[1].Percent(), sum[2].Percent()
	slices.SortFunc(out.Entities, func(a, b EntityCoverage) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// coveredBy returns the names of all definitions that a file uses.
func coveredBy(f *File) map[string]bool {
	covered := map[string]bool{}
	for _, line := range f.Relationships {
		if t, err := permify.ParseTuple(line); err == nil {
			ref := language.TypeRef{Entity: t.Subject.Type, Relation: t.Subject.Relation}
			covered[t.Object.Type+"#"+t.Relation+ref.String()] = true
		}
	}
	for _, line := range f.Attributes {
		if a, _, err := permify.ParseAttribute(line); err == nil {
			covered[a.Object.Type+"$"+a.Name] = true
		}
	}
	assert := func(entityType, permission string) { covered[entityType+"#"+permission] = true }
	for i := range f.Scenarios {
		s := &f.Scenarios[i]
		for _, c := range s.Checks {
			for p := range c.Assertions {
				assert(entity(c.Entity).Type, p)
			}
		}
		for _, c := range s.EntityFilters {
			for p := range c.Assertions {
				assert(c.EntityType, p)
			}
		}
		for _, c := range s.SubjectFilters {
			for p := range c.Assertions {
				assert(entity(c.Entity).Type, p)
			}
		}
	}
	return covered
}
