package onap

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/pdp"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/trail/decisions"
)

// pdpDoor returns the door of the PDP.
func (s *service) pdpDoor() *door.Door {
	route := func(method, pattern, name string, serve func(*call) error) door.Route {
		return door.Route{Method: method, Pattern: pattern, Name: name, Serve: s.handle(writeError, serve)}
	}
	writes := func(method, pattern, name string, serve func(*call) error) door.Route {
		r := route(method, pattern, name, serve)
		r.Writes = true
		return r
	}
	return s.newDoor(NamePDP, prefixPDP, writeError, []door.Route{
		route(http.MethodPost, "/decision", "Decision", (*call).decision),
		{Method: http.MethodPost, Pattern: "/xacml", Name: "XACML", Serve: s.serveXACML},
		route(http.MethodGet, "/healthcheck", "Health", (*call).pdpHealth),
		route(http.MethodGet, "/statistics", "Statistics", (*call).statisticsReport),
		{Method: http.MethodGet, Pattern: "/metrics", Name: "Metrics", Serve: s.serveMetrics},
		writes(http.MethodPost, "/operations", "AppendOperations", (*call).appendOperations),
		route(http.MethodGet, "/operations", "Operations", (*call).operations),
	})
}

// compile is [catalog.Options.Compile]: it compiles the deployed policies.
func (s *service) compile(ctx context.Context, previous any, w *catalog.World) (any, error) {
	deployed := w.Deployed()
	policies := make([]*tosca.Entity, len(deployed))
	for i, id := range deployed {
		if policies[i] = w.Find(tosca.PolicySection, id.Name, id.Version); policies[i] == nil {
			return nil, fmt.Errorf("policy %s is deployed but does not exist", id)
		}
	}
	old, _ := previous.(*pdp.Engine)
	return pdp.Compile(ctx, old, policies, w)
}

// checkPolicy is [catalog.Options.Check].
func checkPolicy(ctx context.Context, p *tosca.Entity, w *catalog.World) error {
	return pdp.Check(ctx, p, w)
}

// errUntranslated is why there is no decision on a request that no policy can be asked about.
var errUntranslated = errors.New("the request could not be translated")

// errPassive is the refusal of a PDP whose group is passive.
var errPassive = &requestError{http.StatusConflict, "the PDP is passive"}

// engine returns the engine for decisions, and fails if the PDP is passive.
func (s *service) engine(w *catalog.World) (*pdp.Engine, error) {
	if w.Passive() {
		return nil, errPassive
	}
	e, ok := w.Compiled.(*pdp.Engine)
	if !ok {
		return nil, errors.New("the deployed policies are not compiled")
	}
	return e, nil
}

// inputs returns what decisions use.
func (s *service) inputs() *pdp.Inputs {
	return &pdp.Inputs{Now: s.catalog.Now, History: &s.catalog.History, FailOpen: s.options.FailOpen}
}

// responses recycles the buffers of responses of at most responseKeptMax bytes.
var responses = sync.Pool{New: func() any { return new([]byte) }}

const responseKeptMax = 64 << 10

// decision serves a decision request.
func (c *call) decision() error {
	w, err := c.catalog.World(c.Context())
	if err != nil {
		return err
	}
	e, err := c.engine(w)
	if err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := pdp.ReadRequest(&body)
	if err != nil {
		return err
	}
	if !e.Serves(request.Action) {
		return &requestError{http.StatusBadRequest, fmt.Sprintf("No application for action %.200s", request.Action)}
	}
	query, err := c.Query()
	if err != nil {
		return err
	}
	request.Brief = request.Brief || slices.Contains(query["abbrev"], "true")
	buffer := responses.Get().(*[]byte)
	out, answer := e.Decide(c.Context(), (*buffer)[:0], request, c.inputs())
	c.statistics.count(&answer)
	if answer.Decided {
		decisions.CountPolicy(c.Context(), answer.Decision)
	} else {
		decisions.Count(c.Context(), expr.Unknown, errUntranslated)
	}
	if answer.Err != nil {
		c.options.Report(fmt.Errorf("history of operations: %w", answer.Err))
	}
	err = c.answerText(out)
	if *buffer = out; cap(out) <= responseKeptMax {
		responses.Put(buffer)
	}
	return err
}

// answerText writes JSON as the response, as YAML if the request asks for it.
func (c *call) answerText(text []byte) error {
	if !c.yaml {
		door.WriteJSON(c.W, http.StatusOK, text)
		return nil
	}
	v, err := tosca.ParseJSON(text)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, &v)
}

// pdpHealth reports the health. The HTTP status is always 200.
func (c *call) pdpHealth() error {
	h := c.health("Policy Xacml PDP")
	if !h.Healthy {
		h.Code = http.StatusInternalServerError
	}
	return c.answerAny(http.StatusOK, h)
}
