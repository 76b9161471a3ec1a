package authzen

import (
	"maps"
	"net/http"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// entity is a subject or a resource.
type entity struct {
	Type, ID       string
	properties     map[string]any
	there, id, typ bool
}

type action struct {
	name        string
	properties  map[string]any
	there, said bool
}

// evaluation is one question as it was sent.
type evaluation struct {
	subject, resource entity
	action            action
	context           map[string]any
}

// member reads one member of an evaluation; false is one that it does not know.
func (e *evaluation) member(r *jsonread.Reader) bool {
	switch string(r.Name()) {
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

func readEntity(r *jsonread.Reader) (e entity) {
	e.there = true
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "type":
			e.Type, e.typ = r.String(), true
		case "id":
			e.ID, e.id = r.String(), true
		case "properties":
			e.properties = r.Values()
		default:
			r.Skip()
		}
	}
	return e
}

func readAction(r *jsonread.Reader) (a action) {
	a.there = true
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "name":
			a.name, a.said = r.String(), true
		case "properties":
			a.properties = r.Values()
		default:
			r.Skip()
		}
	}
	return a
}

// needs says which parts a request must have.
type needs struct{ subjectID, resourceID, action bool }

// whole is what an evaluation needs.
var whole = needs{true, true, true}

func (e *evaluation) complete(n needs) error {
	lacks := ""
	switch {
	case !e.subject.there:
		lacks = "subject"
	case !e.subject.typ:
		lacks = "subject.type"
	case n.subjectID && !e.subject.id:
		lacks = "subject.id"
	case n.action && !e.action.there:
		lacks = "action"
	case n.action && !e.action.said:
		lacks = "action.name"
	case !e.resource.there:
		lacks = "resource"
	case !e.resource.typ:
		lacks = "resource.type"
	case n.resourceID && !e.resource.id:
		lacks = "resource.id"
	default:
		return nil
	}
	return &refusal{http.StatusBadRequest, lacks + " is missing"}
}

// The parameters that hold the properties of what a request names. They are
// always there, and nothing else in a request can be them.
const (
	subjectParam  = "subject"
	resourceParam = "resource"
	actionParam   = "action"
)

// values are the parameters that the request's conditions may have. They are
// only read: unsent are those of a request that sends none.
func (e *evaluation) values(unsent expr.Values) expr.Values {
	if e.context == nil && e.subject.properties == nil && e.resource.properties == nil && e.action.properties == nil {
		return unsent
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

// unsentValues are the parameters of a request that sends none.
func unsentValues() expr.Values {
	return expr.Values{subjectParam: map[string]any{}, resourceParam: map[string]any{}, actionParam: map[string]any{}}
}

// check is the question in the engine's words.
func (e *evaluation) check(unsent expr.Values) ostiary.CheckRequest {
	return ostiary.CheckRequest{Object: rel.Object{Type: e.resource.Type, ID: e.resource.ID}, Relation: e.action.name,
		Subject: rel.Subject{Type: e.subject.Type, ID: e.subject.ID}, QueryOptions: ostiary.QueryOptions{Context: e.values(unsent)}}
}
