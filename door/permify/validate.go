package permify

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/internal/permifypb"
)

// Patterns of names and ids. The texts are part of the protocol's error
// messages.
const (
	namePattern      = `^[a-zA-Z_]{1,64}$`
	idPattern        = `^([a-zA-Z0-9_\-@\.:+]{1,128}|\*)$`
	newTenantPattern = `[a-zA-Z0-9-,]+`
)

// requiredError, patternError and itemCountError return the protocol's texts
// for a field that breaks a rule.
func requiredError(field string) error {
	return invalidArgument("invalid %s: value is required", field)
}

func patternError(field, pattern string) error {
	return invalidArgument("invalid %s: value does not match regex pattern %q", field, pattern)
}

func itemCountError(field string, least, most int) error {
	return invalidArgument("invalid %s: value must contain between %d and %d items, inclusive", field, least, most)
}

// validName reports whether s matches namePattern.
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

// validID reports whether s matches idPattern.
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

// checkTenant checks a request's tenant id. message names the request.
func checkTenant(message, tenant string) error {
	if !validID(tenant) {
		return patternError(message+".TenantId", idPattern)
	}
	return nil
}

// checkEntity checks a required entity. field names it.
func checkEntity(field string, e *permifypb.Entity) error {
	switch {
	case e == nil:
		return requiredError(field)
	case !validName(e.Type):
		return patternError("Entity.Type", namePattern)
	case !validID(e.Id):
		return patternError("Entity.Id", idPattern)
	}
	return nil
}

// checkSubject checks a required subject. field names it.
func checkSubject(field string, s *permifypb.Subject) error {
	if s == nil {
		return requiredError(field)
	}
	return checkSubjectParts(s.Type, s.Id, s.Relation)
}

// noRelation is the value of a subject's relation if the subject is a plain entity.
const noRelation = "..."

// checkSubjectParts checks the parts of a subject.
func checkSubjectParts(typ, id, relation string) error {
	switch {
	case !validName(typ):
		return patternError("Subject.Type", namePattern)
	case !validID(id):
		return patternError("Subject.Id", idPattern)
	case relation != "" && relation != noRelation && !validName(relation):
		return patternError("Subject.Relation", namePattern)
	}
	return nil
}

// checkDepth checks a request's depth. message names its metadata.
func checkDepth(message string, depth int32) error {
	if depth < depthMin {
		return invalidArgument("invalid %s.Depth: value must be greater than or equal to %d", message, depthMin)
	}
	return nil
}

// checkTuple checks a tuple of a request's context.
func checkTuple(t *permifypb.Tuple) error {
	if t == nil {
		return requiredError("Tuple")
	}
	if err := checkEntity("Tuple.Entity", t.Entity); err != nil {
		return err
	}
	if !validName(t.Relation) {
		return patternError("Tuple.Relation", namePattern)
	}
	return checkSubject("Tuple.Subject", t.Subject)
}

// checkAttribute checks an attribute, but not the type of its value.
func checkAttribute(a *permifypb.Attribute) error {
	if a == nil {
		return requiredError("Attribute")
	}
	if err := checkEntity("Attribute.Entity", a.Entity); err != nil {
		return err
	}
	if !validName(a.Attribute) {
		return patternError("Attribute.Attribute", namePattern)
	}
	if a.Value == nil {
		return requiredError("Attribute.Value")
	}
	return nil
}

// checkContext checks the tuples and attributes of a request's context, which
// may be nil.
func checkContext(c *permifypb.Context) error {
	for i, t := range c.GetTuples() {
		if err := checkTuple(t); err != nil {
			return itemError(err, "Context.Tuples", i)
		}
	}
	for i, a := range c.GetAttributes() {
		if err := checkAttribute(a); err != nil {
			return itemError(err, "Context.Attributes", i)
		}
	}
	return nil
}

// itemError adds to err that it concerns item i of a list. An error code stays
// unchanged.
func itemError(err error, field string, i int) error {
	if strings.HasPrefix(err.Error(), "ERROR_CODE_") {
		return err
	}
	return invalidArgument("invalid %s[%d]: embedded message failed validation | caused by: %s", field, i, err)
}

// checkFilterIDs checks the ids of a filter. field names their list.
func checkFilterIDs(field string, ids []string) error {
	for i, id := range ids {
		if !validID(id) {
			return patternError(fmt.Sprintf("%s[%d]", field, i), idPattern)
		}
	}
	return nil
}

// pageSize returns the size of a page: the requested one, at most PageMax, or
// byDefault if the request sets none.
func pageSize(requested uint32, byDefault int) int {
	if requested == 0 {
		return byDefault
	}
	return int(min(requested, PageMax))
}
