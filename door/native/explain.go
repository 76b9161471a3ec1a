package native

import (
	"encoding/json"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// appendJSON appends a value as JSON.
func appendJSON(out []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return append(out, "null"...)
	}
	return append(out, text...)
}

// stepsMax is the largest number of steps that a request may ask for.
const stepsMax = 10_000

// explain serves Explain: why a check has its result.
func (c *call) explain() error {
	var q question
	var o authz.ExplainOptions
	text, short, origins := false, false, false
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "steps":
			o.FrontierMax = int(r.Int(1, stepsMax))
		case "text":
			text = r.Bool()
		case "short":
			short = r.Bool()
		case "origins":
			origins = r.Bool()
		default:
			if !q.readMember(r) {
				r.Unknown()
			}
		}
	}
	q.require(r)
	if err := r.End(); err != nil {
		return err
	}
	x, err := c.store.Explain(c.Context(), authz.ExplainRequest{CheckRequest: q.CheckRequest, Options: o, Origins: origins})
	if err != nil {
		return err
	}
	if short {
		x.Shorten()
	}
	out := struct {
		Allowed     bool               `json:"allowed"`
		Truth       string             `json:"truth"`
		Reasons     *reasonsJSON       `json:"reasons,omitempty"`
		Revision    uint64             `json:"revision"`
		Token       string             `json:"token"`
		Schema      string             `json:"schema"`
		Asked       time.Time          `json:"asked"`
		Explanation *authz.Explanation `json:"explanation"`
		Text        string             `json:"text,omitempty"`
	}{x.Answer.Allowed(), truthText(x.Answer.Decision), reasonsOf(x.Answer.Reasons), uint64(x.Revision), string(x.Token),
		x.Schema.ID, x.Asked, &x, ""}
	if text {
		out.Text = x.String()
	}
	return c.setJSON(out)
}

// levelsMax is the largest number of levels that a request may ask for.
const levelsMax = 100

// expand serves Expand: the subjects that have a relation on an object, as a
// tree, or in pages if the request has a limit or a cursor.
func (c *call) expand() error {
	var q authz.ExpandPageRequest
	p := presentFields{subject: true} // an expand has no subject
	text, pages := false, false
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "object":
			q.Object, p.object = readObject(r), true
		case "relation":
			q.Relation, p.relation = r.String(), true
		case "levels":
			q.Levels = int(r.Int(1, levelsMax))
		case "text":
			text = r.Bool()
		default:
			switch {
			case readPage(r, &q.Limit, &q.Cursor):
				pages = true
			case !readQueryOptions(r, &q.QueryOptions):
				r.Unknown()
			}
		}
	}
	if err := p.end(r, "expected object and relation"); err != nil {
		return err
	}
	if pages {
		return c.expandPage(&q, text)
	}
	x, err := c.store.Expand(c.Context(), q.ExpandRequest)
	if err != nil {
		return err
	}
	out := struct {
		Tree     *authz.Tree `json:"tree"`
		Revision uint64      `json:"revision"`
		Text     string      `json:"text,omitempty"`
	}{x.Tree, uint64(x.Revision), ""}
	if text {
		out.Text = x.Tree.String()
	}
	return c.setJSON(out)
}

// expandPage serves an Expand in pages.
func (c *call) expandPage(q *authz.ExpandPageRequest, text bool) error {
	x, err := c.store.ExpandPage(c.Context(), *q)
	if err != nil {
		return err
	}
	out := struct {
		Parts    []*authz.Tree `json:"parts"`
		Next     string        `json:"next"`
		Cut      string        `json:"cut,omitempty"`
		Revision uint64        `json:"revision"`
		Text     string        `json:"text,omitempty"`
	}{append([]*authz.Tree{}, x.Parts...), x.Next, x.Bound, uint64(x.Revision), ""}
	if text {
		for _, part := range x.Parts {
			out.Text += part.String()
		}
	}
	return c.setJSON(out)
}
