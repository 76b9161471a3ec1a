package onap

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/message"
)

// The media types of XACML requests.
const (
	mediaXACMLJSON = "application/xacml+json"
	mediaXACMLXML  = "application/xacml+xml"
)

// serveXACML decides an XACML request with the native policies.
func (s *service) serveXACML(w http.ResponseWriter, r *http.Request, _ door.Params) {
	setHeaders(w, r)
	if err := s.xacml(w, r); err != nil {
		write := writeDetails
		if errors.Is(err, errPassive) {
			write = writeError
		}
		s.fail(w, err, write)
	}
}

// xacml writes the response to an XACML request.
func (s *service) xacml(w http.ResponseWriter, r *http.Request) error {
	world, err := s.catalog.World(r.Context())
	if err != nil {
		return err
	}
	e, err := s.engine(world)
	if err != nil {
		return err
	}
	asXML, answerXML, err := xacmlMedia(r)
	if err != nil {
		return err
	}
	request, err := readXACML(r, asXML)
	if err != nil {
		return err
	}
	results := e.DecideNative(r.Context(), request, s.inputs())
	for i := range results {
		s.statistics.countDecision("native", results[i].Decision)
	}
	text, media := []byte(nil), mediaXACMLJSON
	if answerXML {
		text, media = message.WriteXML(results), mediaXACMLXML
	} else {
		text = message.WriteJSON(results)
	}
	w.Header().Set("Content-Type", media)
	w.Write(text)
	return nil
}

// xacmlMedia returns whether the request is XML, and whether the response is. A
// request without Accept gets a response of its own type.
func xacmlMedia(r *http.Request) (request, response bool, err error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if request = media == mediaXACMLXML; err != nil || !request && media != mediaXACMLJSON {
		return false, false, &requestError{http.StatusUnsupportedMediaType, "unexpected Content-Type: expected application/xacml+json or application/xacml+xml"}
	}
	accept := strings.Join(r.Header.Values("Accept"), ",")
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
func readXACML(r *http.Request, asXML bool) (*policy.Request, error) {
	body, err := door.ReadBody(r)
	if err != nil {
		return nil, err
	}
	defer body.Free()
	read, name := message.ReadJSON, "JSON"
	if asXML {
		read, name = message.ReadXML, "XML"
	}
	request, err := read(body.Bytes)
	if err != nil {
		return nil, &requestError{http.StatusBadRequest, fmt.Sprintf("invalid %s xacml request: %v", name, err)}
	}
	return request, nil
}
