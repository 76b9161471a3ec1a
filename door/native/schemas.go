package native

import (
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/schema"
)

// dialectModel is the dialect of a schema that was sent as a model.
const dialectModel = "model"

// schemaJSON is a schema in a response.
type schemaJSON struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	Created   time.Time `json:"created"`
	Revision  uint64    `json:"revision"`
	Token     string    `json:"token,omitempty"`
	// Dialect and Source are the schema as it was written; Model is its
	// translation.
	Dialect string        `json:"dialect,omitempty"`
	Source  string        `json:"source,omitempty"`
	Model   *schema.Model `json:"model,omitempty"`
}

// schemaOf translates what is known of a schema without its text.
func schemaOf(info authz.SchemaInfo) schemaJSON {
	return schemaJSON{ID: info.ID, Namespace: info.Namespace, Created: info.Created, Revision: uint64(info.Revision)}
}

// dialect returns the dialect of that name.
func (s *service) dialect(name string) (*Dialect, error) {
	for i := range s.options.Dialects {
		if s.options.Dialects[i].Name == name {
			return &s.options.Dialects[i], nil
		}
	}
	names := []string{dialectModel}
	for _, d := range s.options.Dialects {
		names = append(names, d.Name)
	}
	return nil, invalidRequest("unknown dialect: expected one of " + string(appendStrings(nil, names)))
}

// schemaSource is a schema in a request: either dialect and source, or a model.
type schemaSource struct {
	dialect, source, namespace string
	model                      []byte
	// given is true if the request has any of the members.
	given bool
}

// readMember reads one member of a schema. It returns false if a schema has no
// such member.
func (q *schemaSource) readMember(r *jsonread.Reader) bool {
	q.given = true
	switch string(r.Name()) {
	case "dialect":
		q.dialect = r.String()
	case "source":
		q.source = r.String()
	case "namespace":
		q.namespace = r.String()
	case "model":
		q.model = r.Raw()
	default:
		return false
	}
	return true
}

// parseFactor is the memory that the parser of a dialect may need, as a multiple of
// the size of the text. That of OpenFGA's language needs most.
const parseFactor = 192

// read translates the schema into a model.
func (q *schemaSource) read(c *call) (authz.SchemaSource, error) {
	out := authz.SchemaSource{Dialect: q.dialect, Source: []byte(q.source)}
	switch {
	case (q.model == nil) == (q.source == ""):
		return out, invalidRequest("expected either model, or dialect and source")
	case q.model != nil:
		if q.dialect != "" && q.dialect != dialectModel {
			return out, invalidRequest("unexpected dialect: a model has none")
		}
		if err := jsonread.UnmarshalKnown(q.model, &out.Model); err != nil {
			return out, &problem{status: http.StatusBadRequest, Code: "invalid_schema", Message: "model: " + err.Error()}
		}
		if out.Model == nil {
			return out, &problem{status: http.StatusBadRequest, Code: "invalid_schema", Message: "model: expected the JSON form of a model"}
		}
		out.Dialect, out.Source = dialectModel, nil
	default:
		d, err := c.dialect(q.dialect)
		if err != nil {
			return out, err
		}
		err = c.store.Compilation(c.Context(), len(out.Source)*parseFactor, func() error {
			if out.Model, err = d.Parse(out.Source); err != nil {
				return &problem{status: http.StatusBadRequest, Code: "invalid_schema", Message: err.Error()}
			}
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	if q.namespace != "" {
		out.Model.Namespace = q.namespace
	}
	return out, nil
}

// writeSchema serves WriteSchema.
func (c *call) writeSchema() error {
	var q schemaSource
	id := ""
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		if string(r.Name()) == "id" {
			if id = r.String(); id == "" {
				r.Fail("expected a ULID")
			}
		} else if !q.readMember(r) {
			r.Unknown()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	src, err := q.read(c)
	if err != nil {
		return err
	}
	src.WithID = id
	info, token, err := c.store.WriteSchema(c.Context(), src)
	if err != nil {
		return err
	}
	out := schemaOf(info)
	out.Token, c.status = string(token), http.StatusCreated
	return c.setJSON(out)
}

// listSchemas serves ListSchemas.
func (c *call) listSchemas() error {
	if _, err := c.QueryOf(); err != nil {
		return err
	}
	infos, err := c.store.Schemas(c.Context())
	if err != nil {
		return err
	}
	out := make([]schemaJSON, len(infos))
	for i := range infos {
		out[i] = schemaOf(infos[i])
	}
	return c.setJSON(map[string]any{"schemas": out})
}

// getSchema serves GetSchema: a schema as it was written or, with ?dialect=, in
// another language that can express it. The id "current" is the current schema
// without namespace.
func (c *call) getSchema() error {
	values, err := c.QueryOf("dialect")
	if err != nil {
		return err
	}
	id := c.Params.At(1)
	if id == "current" {
		id = ""
	}
	s, err := c.store.Schema(c.Context(), id)
	if err != nil {
		return err
	}
	out := schemaOf(s.SchemaInfo)
	out.Dialect, out.Model = s.Dialect, s.Model
	if utf8.Valid(s.Source) {
		out.Source = string(s.Source)
	}
	if name := values.Get("dialect"); values.Has("dialect") && name != dialectModel {
		d, err := c.dialect(name)
		if err != nil {
			return err
		}
		if out.Source, err = d.Format(s.Model); err != nil {
			return &problem{status: http.StatusUnprocessableEntity, Code: "inexpressible", Message: err.Error()}
		}
		out.Dialect = name
	}
	return c.setJSON(out)
}

// deleteSchema serves DeleteSchema.
func (c *call) deleteSchema() error {
	id := c.Params.At(1)
	infos, err := c.store.Schemas(c.Context())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(infos, func(i authz.SchemaInfo) bool { return i.ID == id }) {
		return &problem{status: http.StatusNotFound, Code: "no_schema", Message: "no such schema"}
	}
	token, err := c.store.RemoveSchema(c.Context(), id)
	if err != nil {
		return err
	}
	return c.setToken(token)
}

// setToken sets the response of a write: its token and revision.
func (c *call) setToken(token authz.Token) error {
	revision, err := token.Revision()
	if err != nil {
		return err
	}
	return c.setJSON(writeResultJSON{string(token), uint64(revision)})
}

// writeResultJSON is the response of a write.
type writeResultJSON struct {
	Token    string `json:"token"`
	Revision uint64 `json:"revision"`
}
