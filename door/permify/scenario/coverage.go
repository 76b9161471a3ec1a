package scenario

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/door/permify/language"
)

// Coverage says how much of a schema a file's data and assertions touch.
type Coverage struct {
	Entities []EntityCoverage
	// Relationships, Attributes and Assertions are over the whole schema, in
	// percent. What a schema does not have is covered.
	Relationships, Attributes, Assertions int
}

// EntityCoverage is an entity's part: how much is touched, and what is not.
type EntityCoverage struct {
	Name                                  string
	Relationships, Attributes, Assertions Part
}

// Part is what of a kind is touched.
type Part struct {
	Covered, All int
	// Missing are those that are not: "doc#owner@user", "doc$public", "doc#view".
	Missing []string
}

// Percent is the covered part; nothing is covered whole.
func (p *Part) Percent() int {
	if p.All == 0 {
		return 100
	}
	return p.Covered * 100 / p.All
}

func (p *Part) count(name string, touched map[string]bool) {
	p.All++
	if touched[name] {
		p.Covered++
	} else {
		p.Missing = append(p.Missing, name)
	}
}

// Cover compares a file with its schema: which subject types of relations stand
// in its relationships, which attributes have a value, and which permissions
// some assertion is about.
func Cover(f *File, s *language.Schema) Coverage {
	touched := touch(f)
	var out Coverage
	var sum [3]Part
	for _, e := range s.Entities {
		c := EntityCoverage{Name: e.Name}
		for _, st := range e.Statements {
			switch st.Kind {
			case language.Relation:
				for _, t := range st.Types {
					c.Relationships.count(e.Name+"#"+st.Name+t.String(), touched)
				}
			case language.Attribute:
				c.Attributes.count(e.Name+"$"+st.Name, touched)
			case language.Permission:
				c.Assertions.count(e.Name+"#"+st.Name, touched)
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

// touch names everything that a file speaks of.
func touch(f *File) map[string]bool {
	touched := map[string]bool{}
	for _, line := range f.Relationships {
		if t, err := permify.ParseTuple(line); err == nil {
			ref := language.TypeRef{Entity: t.Subject.Type, Relation: t.Subject.Relation}
			touched[t.Object.Type+"#"+t.Relation+ref.String()] = true
		}
	}
	for _, line := range f.Attributes {
		if a, _, err := permify.ParseAttribute(line); err == nil {
			touched[a.Object.Type+"$"+a.Name] = true
		}
	}
	assert := func(entityType, permission string) { touched[entityType+"#"+permission] = true }
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
	return touched
}
