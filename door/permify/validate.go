package permify

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/door/permify/basev1"
)

// What names and ids may be; the texts are the protocol's.
const (
	namePattern      = `^[a-zA-Z_]{1,64}$`
	idPattern        = `^([a-zA-Z0-9_\-@\.:+]{1,128}|\*)$`
	newTenantPattern = `[a-zA-Z0-9-,]+`
)

// required, mismatch and the like are the protocol's texts for a field that
// breaks a rule.
func required(field string) error { return invalid("invalid %s: value is required", field) }

func mismatch(field, pattern string) error {
	return invalid("invalid %s: value does not match regex pattern %q", field, pattern)
}

func itemCount(field string, least, most int) error {
	return invalid("invalid %s: value must contain between %d and %d items, inclusive", field, least, most)
}

func validName(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}

func validID(s string) bool {
	if len(s) == 0 || len(s) > 128 {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= ':', c == '_', c == '-', c == '@', c == '.', c == '+':
		default:
			return s == "*"
		}
	}
	return true
}

func checkTenant(message, tenant string) error {
	if !validID(tenant) {
		return mismatch(message+".TenantId", idPattern)
	}
	return nil
}

func checkEntity(field string, e *basev1.Entity) error {
	switch {
	case e == nil:
		return required(field)
	case !validName(e.Type):
		return mismatch("Entity.Type", namePattern)
	case !validID(e.Id):
		return mismatch("Entity.Id", idPattern)
	}
	return nil
}

func checkSubject(field string, s *basev1.Subject) error {
	if s == nil {
		return required(field)
	}
	return checkSubjectParts(s.Type, s.Id, s.Relation)
}

// noRelation is how a subject may say that it has no relation.
const noRelation = "..."

func checkSubjectParts(typ, id, relation string) error {
	switch {
	case !validName(typ):
		return mismatch("Subject.Type", namePattern)
	case !validID(id):
		return mismatch("Subject.Id", idPattern)
	case relation != "" && relation != noRelation && !validName(relation):
		return mismatch("Subject.Relation", namePattern)
	}
	return nil
}

func checkDepth(message string, depth int32) error {
	if depth < DepthMin {
		return invalid("invalid %s.Depth: value must be greater than or equal to %d", message, DepthMin)
	}
	return nil
}

func checkTuple(t *basev1.Tuple) error {
	if t == nil {
		return required("Tuple")
	}
	if err := checkEntity("Tuple.Entity", t.Entity); err != nil {
		return err
	}
	if !validName(t.Relation) {
		return mismatch("Tuple.Relation", namePattern)
	}
	return checkSubject("Tuple.Subject", t.Subject)
}

func checkAttribute(a *basev1.Attribute) error {
	if a == nil {
		return required("Attribute")
	}
	if err := checkEntity("Attribute.Entity", a.Entity); err != nil {
		return err
	}
	if !validName(a.Attribute) {
		return mismatch("Attribute.Attribute", namePattern)
	}
	if a.Value == nil {
		return required("Attribute.Value")
	}
	return nil
}

func checkContext(c *basev1.Context) error {
	for i, t := range c.GetTuples() {
		if err := checkTuple(t); err != nil {
			return within(err, "Context.Tuples", i)
		}
	}
	for i, a := range c.GetAttributes() {
		if err := checkAttribute(a); err != nil {
			return within(err, "Context.Attributes", i)
		}
	}
	return nil
}

// within says where in a list an invalid item stands. An error code stays what
// it is.
func within(err error, field string, i int) error {
	if strings.HasPrefix(err.Error(), "ERROR_CODE_") {
		return err
	}
	return invalid("invalid %s[%d]: embedded message failed validation | caused by: %s", field, i, err)
}

// checkFilterIDs checks the ids that a filter names.
func checkFilterIDs(field string, ids []string) error {
	for i, id := range ids {
		if !validID(id) {
			return mismatch(fmt.Sprintf("%s[%d]", field, i), idPattern)
		}
	}
	return nil
}

// page is the size of a page: what was asked for, or what the call takes for
// nothing, never more than PageMax.
func page(asked uint32, otherwise int) int {
	if asked == 0 {
		return otherwise
	}
	return int(min(asked, PageMax))
}
