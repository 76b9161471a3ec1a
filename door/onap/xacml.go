package onap

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/trail/decisions"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/message"
)

// The media types of XACML requests.
const (
	mediaXACMLJSON = "application/xacml+json"
	mediaXACMLXML  = "application/xacml+xml"
)

// serveXACML decides an XACML request with the native policies.
func (s *service) serveXACML(w http.ResponseWriter, r *http.Request, p door.Params) {
	setHeaders(w, r)
	c := &call{service: s, Call: door.Call{W: w, R: r, Params: p}}
	if err := c.xacml(); err != nil {
		write := writeDetails
		if errors.Is(err, errPassive) {
			write = writeError
		}
		s.fail(w, err, write)
	}
}

// xacml writes the response to an XACML request.
func (c *call) xacml() error {
	world, err := c.catalog.World(c.Context())
	if err != nil {
		return err
	}
	e, err := c.engine(world)
	if err != nil {
		return err
	}
	asXML, answerXML, err := c.xacmlMedia()
	if err != nil {
		return err
	}
	request, err := c.readXACML(asXML)
	if err != nil {
		return err
	}
	results := e.DecideNative(c.Context(), request, c.inputs())
	for i := range results {
		c.statistics.countDecision("native", results[i].Decision)
		decisions.CountPolicy(c.Context(), results[i].Decision)
	}
	text, media := []byte(nil), mediaXACMLJSON
	if answerXML {
		text, media = message.WriteXML(results), mediaXACMLXML
	} else {
		text = message.WriteJSON(results)
	}
	c.W.Header().Set("Content-Type", media)
	c.W.Write(text)
	return nil
}

// xacmlMedia returns whether the request is XML, and whether the response is. A
// request without Accept gets a response of its own type.
func (c *call) xacmlMedia() (request, response bool, err error) {
	media, err := c.Media(mediaXACMLJSON, mediaXACMLXML)
	if err == nil && media == "" {
		err = c.RefuseMedia(mediaXACMLJSON, mediaXACMLXML)
	}
	if err != nil {
		return false, false, err
	}
	request = media == mediaXACMLXML
	accept := strings.Join(c.R.Header.Values("Accept"), ",")
	if accept == "" {
		return request, request, nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		name, _, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case mediaXACMLXML:
			return request, true, nil
		case mediaXACMLJSON:
			return request, false, nil
		case "*/*", "application/*":
			return request, request, nil
		}
	}
	return false, false, &requestError{http.StatusNotAcceptable, "unexpected Accept: expected application/xacml+json or application/xacml+xml"}
}

// readXACML reads an XACML request.
func (c *call) readXACML(asXML bool) (*policy.Request, error) {
	body, err := c.Body()
	if err != nil {
		return nil, err
	}
	defer c.End()
	read, name := message.ReadJSON, "JSON"
	if asXML {
		read, name = message.ReadXML, "XML"
	}
	request, err := read(body)
	if err != nil {
		return nil, &requestError{http.StatusBadRequest, fmt.Sprintf("invalid %s xacml request: %v", name, err)}
	}
	return request, nil
}
