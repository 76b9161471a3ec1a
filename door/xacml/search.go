package xacml

import (
	"encoding/json"
	"net/http"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/message"
	"github.com/ostiary/ostiary/storage"
)

// found is a candidate that is permitted.
type found struct {
	Name string `json:"name"`
	// Obligations and Advice are in the form of the JSON profile.
	Obligations json.RawMessage `json:"Obligations,omitempty"`
	Advice      json.RawMessage `json:"AssociatedAdvice,omitempty"`
}

// search serves POST search: for which candidates is a request permitted?
func (c *call) search() error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := readSearch(body)
	if err != nil {
		return err
	}
	page, err := c.domain.Search(c.Context(), request)
	if err != nil {
		return err
	}
	out := struct {
		Results   []found          `json:"results"`
		Undecided int              `json:"undecided,omitempty"`
		Why       string           `json:"why,omitempty"`
		Next      string           `json:"next,omitempty"`
		Revision  storage.Revision `json:"revision"`
	}{Results: []found{}, Undecided: page.Undecided, Next: page.Next, Revision: page.Revision}
	if page.Status != nil {
		out.Why = door.ShortText(page.Status.Message)
	}
	for _, p := range page.Permitted {
		one, err := foundOf(p)
		if err != nil {
			return err
		}
		out.Results = append(out.Results, one)
	}
	writeJSON(c.W, http.StatusOK, out)
	return nil
}

// foundOf returns a candidate as JSON.
func foundOf(p domain.Candidate) (found, error) {
	out := found{Name: p.Name}
	if len(p.Obligations)+len(p.Advice) == 0 {
		return out, nil
	}
	text := message.AppendJSON(nil, []policy.Result{{Decision: policy.Permitted, Obligations: p.Obligations, Advice: p.Advice}})
	var response struct{ Response []found }
	if err := json.Unmarshal(text, &response); err != nil {
		return out, err
	}
	out.Obligations, out.Advice = response.Response[0].Obligations, response.Response[0].Advice
	return out, nil
}

// readSearch reads a search.
func readSearch(body []byte) (*domain.SearchRequest, error) {
	var out domain.SearchRequest
	var known []byte
	var knownForm form
	r := jsonread.New(body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "request":
			known, knownForm = readMessage(r)
		case "category":
			out.Category = readCategory(r)
		case "type":
			out.Type = r.String()
		case "candidates":
			out.Candidates = []string{}
			for r.Array(); r.Item(); {
				out.Candidates = append(out.Candidates, r.String())
			}
		case "limit":
			out.Limit = int(r.Int(1, domain.SearchLimitMax))
		case "cursor":
			out.Cursor = r.String()
		default:
			r.Unknown()
		}
	}
	switch {
	case known == nil:
		r.Fail("request is missing")
	case out.Category == "":
		r.Fail("category is missing")
	}
	err := r.End()
	if err == nil {
		out.Known, err = readRequest(knownForm, known)
	}
	return &out, err
}

// readCategory reads the category of a search: its short name in the JSON profile,
// or its identifier.
func readCategory(r *jsonread.Reader) string {
	switch name := r.String(); name {
	case "AccessSubject":
		return policy.CategorySubject
	case "Resource":
		return policy.CategoryResource
	case "Action":
		return policy.CategoryAction
	case policy.CategorySubject, policy.CategoryResource, policy.CategoryAction:
		return name
	}
	r.Fail("expected AccessSubject, Resource or Action")
	return ""
}
