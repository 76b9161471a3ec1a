package xacml

import (
	"encoding/json"
	"net/http"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/trail/decisions"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/message"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/storage"
)

// decide serves a decision (REST profile, section 2.2). The status is 200 for
// every decision, also for an Indeterminate one.
func (c *call) decide() error {
	if c.query != nil {
		switch traced := c.query.Get("trace"); traced {
		case "true":
			return c.explain()
		case "", "false":
		default:
			return badRequest("invalid parameter trace=" + value.Quote(traced) + ": expected true or false")
		}
	}
	return c.answer(c.respond)
}

// explain serves a decision with its trace.
func (c *call) explain() error { return c.answer(c.respondTraced) }

// answer reads a request and its form, and passes them to respond.
func (c *call) answer(respond func(f form, body []byte) error) error {
	f, body, err := c.read(formXML, formJSON)
	if err != nil {
		return err
	}
	return respond(f, body)
}

// respond writes the response to a request.
func (c *call) respond(f form, body []byte) error {
	as, err := accept(c.R, messageOffers(f)...)
	if err != nil {
		return err
	}
	results, _, err := c.results(f, body, nil)
	if err != nil {
		return err
	}
	writeBody(c.W, http.StatusOK, as.name, appendResults(nil, as.form, results))
	return nil
}

// results decides a request in a form. trace may be nil.
func (c *call) results(f form, body []byte, trace *policy.Trace) ([]policy.Result, *domain.Pinned, error) {
	request, err := readRequest(f, body)
	if err != nil {
		return nil, nil, err
	}
	o, err := c.pinOptions()
	if err != nil {
		return nil, nil, err
	}
	pinned, err := c.domain.Pin(c.Context(), o)
	if err != nil {
		return nil, nil, err
	}
	results, err := pinned.Decide(c.Context(), request, trace)
	if err != nil {
		decisions.Count(c.Context(), expr.Unknown, err)
	}
	for i := range results {
		decisions.CountPolicy(c.Context(), results[i].Decision)
	}
	return results, pinned, err
}

// pinOptions returns the revisions that the URL asks for.
func (c *call) pinOptions() (o domain.PinOptions, err error) {
	if text := c.query.Get("revision"); text != "" {
		if o.Revision, err = revision(text); err != nil {
			return o, err
		}
	}
	if text := c.query.Get("relations"); text != "" {
		token := authz.Token(text)
		if _, err := token.Revision(); err != nil {
			return o, err
		}
		o.Relations = authz.AtLeast(token)
	}
	return o, nil
}

// readRequest reads a request in a form.
func readRequest(f form, body []byte) (*policy.Request, error) {
	if f == formXML {
		return message.ReadXML(body)
	}
	return message.ReadJSON(body)
}

// appendResults appends a response in a form.
func appendResults(dst []byte, f form, results []policy.Result) []byte {
	if f == formXML {
		return message.AppendXML(dst, results)
	}
	return message.AppendJSON(dst, results)
}

// explanation is the response of [call.explain].
type explanation struct {
	// Response is the response of the JSON profile.
	Response json.RawMessage `json:"Response"`
	// Revision is the revision of the policies, and Relations the token of the
	// relation store; it is left out if no policy asked.
	Revision  storage.Revision `json:"revision"`
	Relations authz.Token      `json:"relations,omitempty"`
	// Trace has a step for each decision. Cut is true if steps are missing, because
	// the trace is too long.
	Trace []*step `json:"trace"`
	Cut   bool    `json:"cut,omitempty"`
}

// respondTraced writes the response to a request with its trace.
func (c *call) respondTraced(f form, body []byte) error {
	if _, err := accept(c.R, offer{typeJSON, formJSON}, offer{typeXACMLJSON, formJSON}); err != nil {
		return err
	}
	var trace policy.Trace
	results, pinned, err := c.results(f, body, &trace)
	if err != nil {
		return err
	}
	out := explanation{Revision: pinned.Revision(), Cut: trace.Cut, Trace: steps(trace.Decisions)}
	var response struct{ Response json.RawMessage }
	if err := json.Unmarshal(message.AppendJSON(nil, results), &response); err != nil {
		return err
	}
	out.Response = response.Response
	if out.Relations, err = pinned.RelationsToken(c.Context()); err != nil {
		return err
	}
	writeJSON(c.W, http.StatusOK, out)
	return nil
}

// step is a step of a trace as JSON.
type step struct {
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	Version string `json:"version,omitempty"`
	Policy  string `json:"policy,omitempty"` // name of the policy that has the element
	Line    int    `json:"line,omitempty"`
	Target  string `json:"target"`
	// Decision is that of the element, with the kind of an Indeterminate one:
	// "Indeterminate{DP}".
	Decision string `json:"decision"`
	// Decides is true if the element decided what is above it.
	Decides bool      `json:"decides,omitempty"`
	Status  string    `json:"status,omitempty"`
	Missing []missing `json:"missing,omitempty"`
	// Skipped is the number of members that the index left out.
	Skipped int     `json:"skipped,omitempty"`
	Steps   []*step `json:"steps,omitempty"`
}

// missing is an attribute that a policy needed and the request lacks.
type missing struct {
	Category string `json:"category"`
	ID       string `json:"id"`
	DataType string `json:"dataType"`
	Issuer   string `json:"issuer,omitempty"`
}

// steps returns the steps of a trace as JSON.
func steps(in []*policy.TraceStep) []*step {
	out := make([]*step, len(in))
	for i, s := range in {
		one := &step{Kind: s.Kind, ID: s.ID, Version: s.Version, Policy: s.Position.Source, Line: s.Position.Line,
			Target: s.Target.String(), Decision: decisionName(s.Decision), Skipped: s.Skipped, Steps: steps(s.Children)}
		if s.Decided >= 0 && s.Decided < len(one.Steps) {
			one.Steps[s.Decided].Decides = true
		}
		if s.Status != nil {
			one.Status = s.Status.Message
			for _, m := range s.Status.Missing {
				one.Missing = append(one.Missing, missing{m.Category, m.ID, m.Type.URI(), m.Issuer})
			}
		}
		out[i] = one
	}
	return out
}

// decisionName returns a decision with the kind of an Indeterminate one.
func decisionName(d policy.Decision) string {
	switch d {
	case policy.Permitted:
		return "Permit"
	case policy.Denied:
		return "Deny"
	case policy.NotApplicable:
		return "NotApplicable"
	case policy.IndeterminateP:
		return "Indeterminate{P}"
	case policy.IndeterminateD:
		return "Indeterminate{D}"
	case policy.IndeterminateDP:
		return "Indeterminate{DP}"
	}
	return "Indeterminate"
}

// relationPDP are the relation types of the entry document: that of the REST
// profile 1.1, and that of its front page.
const (
	relationPDP      = "http://docs.oasis-open.org/ns/xacml/relation/pdp"
	relationPDPShort = "/xacml/ns/relation/pdp"
)

// home serves the entry document (REST profile, section 2.1).
func (c *call) home() error {
	as, err := accept(c.R, offer{typeHome, unknown}, offer{typeJSON, unknown})
	if err != nil {
		return err
	}
	type formats map[string]struct{}
	pdp := map[string]any{"href": prefix + "/pdp", "hints": map[string]any{"allow": []string{http.MethodPost},
		"formats":     formats{typeXACMLXML: {}, typeXACMLJSON: {}},
		"accept-post": []string{typeXACMLXML, typeXACMLJSON}}}
	body, err := json.Marshal(map[string]any{"resources": map[string]any{relationPDP: pdp, relationPDPShort: pdp}})
	if err != nil {
		return err
	}
	writeBody(c.W, http.StatusOK, as.name, append(body, '\n'))
	return nil
}
