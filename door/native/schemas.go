package native

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
	"github.com/ostiary/ostiary/schema"
)

// modelDialect is the dialect of a schema that was sent as a model.
const modelDialect = "model"

type schemaJSON struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace"`
	Created   time.Time `json:"created"`
	Revision  uint64    `json:"revision"`
	Token     string    `json:"token,omitempty"`
	// Dialect and Source are what it was written in; Model is what that means.
	Dialect string        `json:"dialect,omitempty"`
	Source  string        `json:"source,omitempty"`
	Model   *schema.Model `json:"model,omitempty"`
}

func schemaOf(info ostiary.SchemaInfo) schemaJSON {
	return schemaJSON{ID: info.ID, Namespace: info.Namespace, Created: info.Created, Revision: uint64(info.Revision)}
}

// dialect finds a language by its name.
func (s *service) dialect(name string) (*Dialect, error) {
	for i := range s.options.Dialects {
		if s.options.Dialects[i].Name == name {
			return &s.options.Dialects[i], nil
		}
	}
	names := []string{modelDialect}
	for _, d := range s.options.Dialects {
		names = append(names, d.Name)
	}
	return nil, invalid("there is no dialect of that name; there are: " + string(appendStrings(nil, names)))
}

// schemaSource is a schema as it is sent: dialect and source, or a model.
type schemaSource struct {
	dialect, source, namespace string
	model                      []byte
	given                      bool
}

// member reads a member of it; false is another one.
func (q *schemaSource) member(r *jsonread.Reader) bool {
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

// read makes a model of what was sent.
func (q *schemaSource) read(s *service) (ostiary.SchemaSource, error) {
	out := ostiary.SchemaSource{Dialect: q.dialect, Source: []byte(q.source)}
	switch {
	case (q.model == nil) == (q.source == ""):
		return out, invalid("either model, or dialect and source are wanted")
	case q.model != nil:
		if q.dialect != "" && q.dialect != modelDialect {
			return out, invalid("a model has no dialect")
		}
		dec := json.NewDecoder(bytes.NewReader(q.model))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&out.Model); err != nil || out.Model == nil {
			return out, &problem{status: http.StatusBadRequest, Code: "invalid_schema", Message: "model: not the form of a model"}
		}
		out.Dialect, out.Source = modelDialect, nil
	default:
		d, err := s.dialect(q.dialect)
		if err != nil {
			return out, err
		}
		if out.Model, err = d.Parse(out.Source); err != nil {
			return out, &problem{status: http.StatusBadRequest, Code: "invalid_schema", Message: err.Error()}
		}
	}
	if q.namespace != "" {
		out.Model.Namespace = q.namespace
	}
	return out, nil
}

func (c *call) writeSchema() error {
	var q schemaSource
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		if !q.member(r) {
			r.Unknown()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	src, err := q.read(c.service)
	if err != nil {
		return err
	}
	info, token, err := c.store.WriteSchema(c.ctx, src)
	if err != nil {
		return err
	}
	out := schemaOf(info)
	out.Token, c.status = string(token), http.StatusCreated
	return c.json(out)
}

func (c *call) listSchemas() error {
	if _, err := c.query(); err != nil {
		return err
	}
	infos, err := c.store.Schemas(c.ctx)
	if err != nil {
		return err
	}
	out := make([]schemaJSON, len(infos))
	for i := range infos {
		out[i] = schemaOf(infos[i])
	}
	return c.json(map[string]any{"schemas": out})
}

// getSchema reads a schema back, as it was written or, with ?dialect=, in
// another language that has words for it. The id "current" is the current one
// without namespace.
func (c *call) getSchema() error {
	values, err := c.query("dialect")
	if err != nil {
		return err
	}
	id := c.params.At(1)
	if id == "current" {
		id = ""
	}
	s, err := c.store.Schema(c.ctx, id)
	if err != nil {
		return err
	}
	out := schemaOf(s.SchemaInfo)
	out.Dialect, out.Model = s.Dialect, s.Model
	if utf8.Valid(s.Source) {
		out.Source = string(s.Source)
	}
	if name := values.Get("dialect"); values.Has("dialect") && name != modelDialect {
		d, err := c.dialect(name)
		if err != nil {
			return err
		}
		if out.Source, err = d.Format(s.Model); err != nil {
			return &problem{status: http.StatusUnprocessableEntity, Code: "inexpressible", Message: err.Error()}
		}
		out.Dialect = name
	}
	return c.json(out)
}

func (c *call) deleteSchema() error {
	id := c.params.At(1)
	infos, err := c.store.Schemas(c.ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(infos, func(i ostiary.SchemaInfo) bool { return i.ID == id }) {
		return &problem{status: http.StatusNotFound, Code: "no_schema", Message: "no such schema"}
	}
	token, err := c.store.RemoveSchema(c.ctx, id)
	if err != nil {
		return err
	}
	return c.told(token)
}

// told answers a write with its token.
func (c *call) told(token ostiary.Token) error {
	revision, err := token.Revision()
	if err != nil {
		return err
	}
	return c.json(written{string(token), uint64(revision)})
}

type written struct {
	Token    string `json:"token"`
	Revision uint64 `json:"revision"`
}
