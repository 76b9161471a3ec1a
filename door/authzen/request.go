package authzen

import (
	"maps"
	"net/http"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/rel"
)

// entity is a subject or a resource of a request.
type entity struct {
	Type, ID   string
	properties map[string]any
	// present, hasType and hasID are true if the request has the entity, its
	// type and its id. Any string is a valid id, including "".
	present, hasType, hasID bool
}

// action is the action of a request.
type action struct {
	name       string
	properties map[string]any
	// present and hasName are true if the request has the action and its name.
	present, hasName bool
}

// evaluation is a question of a request: may subject do action to resource?
type evaluation struct {
	subject, resource entity
	action            action
	// context is nil if the request has none.
	context map[string]any
}

// readMember reads the member of the given name. It returns false, without
// reading, if an evaluation has no such member.
func (e *evaluation) readMember(name []byte, r *jsonread.Reader) bool {
	switch string(name) {
	case "subject":
		e.subject = readEntity(r)
	case "resource":
		e.resource = readEntity(r)
	case "action":
		e.action = readAction(r)
	case "context":
		e.context = r.Values()
	default:
		return false
	}
	return true
}

// readEntity reads a subject or a resource.
func readEntity(r *jsonread.Reader) (e entity) {
	e.present = true
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "type":
			e.Type, e.hasType = r.String(), true
		case "id":
			e.ID, e.hasID = r.String(), true
		case "properties":
			e.properties = r.Values()
		default:
			r.Skip()
		}
	}
	return e
}

// readAction reads an action.
func readAction(r *jsonread.Reader) (a action) {
	a.present = true
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "name":
			a.name, a.hasName = r.String(), true
		case "properties":
			a.properties = r.Values()
		default:
			r.Skip()
		}
	}
	return a
}

// requiredParts are the parts that a request must have, besides the types of
// the subject and the resource.
type requiredParts struct{ subjectID, resourceID, action bool }

// evaluationParts are the required parts of an evaluation.
var evaluationParts = requiredParts{true, true, true}

// checkParts returns an error that names the first missing part.
func (e *evaluation) checkParts(n requiredParts) error {
	missing := ""
	switch {
	case !e.subject.present:
		missing = "subject"
	case !e.subject.hasType:
		missing = "subject.type"
	case n.subjectID && !e.subject.hasID:
		missing = "subject.id"
	case n.action && !e.action.present:
		missing = "action"
	case n.action && !e.action.hasName:
		missing = "action.name"
	case !e.resource.present:
		missing = "resource"
	case !e.resource.hasType:
		missing = "resource.type"
	case n.resourceID && !e.resource.hasID:
		missing = "resource.id"
	default:
		return nil
	}
	return &requestError{http.StatusBadRequest, missing + " is missing"}
}

// Condition parameters with the properties of the subject, the resource and the
// action. They always exist, and a request's context cannot replace them.
const (
	subjectParam  = "subject"
	resourceParam = "resource"
	actionParam   = "action"
)

// params returns the condition parameters of the request. The result is
// read-only, because it is the shared value empty if the request has no properties and no context.
func (e *evaluation) params(empty expr.Values) expr.Values {
	if e.context == nil && e.subject.properties == nil && e.resource.properties == nil && e.action.properties == nil {
		return empty
	}
	out := make(expr.Values, len(e.context)+3)
	maps.Copy(out, e.context)
	for _, p := range [...]struct {
		name   string
		values map[string]any
	}{{subjectParam, e.subject.properties}, {resourceParam, e.resource.properties}, {actionParam, e.action.properties}} {
		if p.values == nil {
			p.values = map[string]any{}
		}
		out[p.name] = p.values
	}
	return out
}

// emptyParams returns the parameters of a request without properties and
// context.
func emptyParams() expr.Values {
	return expr.Values{subjectParam: map[string]any{}, resourceParam: map[string]any{}, actionParam: map[string]any{}}
}

// check translates the evaluation.
func (e *evaluation) check(empty expr.Values) authz.CheckRequest {
	return authz.CheckRequest{Object: rel.Object{Type: e.resource.Type, ID: e.resource.ID}, Relation: e.action.name,
		Subject: rel.Subject{Type: e.subject.Type, ID: e.subject.ID}, QueryOptions: authz.QueryOptions{Context: e.params(empty)}}
}
