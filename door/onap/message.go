package onap

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// The media types of requests and responses.
const (
	mediaJSON = "application/json"
	mediaYAML = "application/yaml"
)

// headerRequestID carries the id of a request, which the response repeats.
const headerRequestID = "X-Onap-Requestid"

// The headers of each response. Versions are those of the protocol.
var (
	latestVersion = []string{"1.0.0"}
	minorVersion  = []string{"0"}
	patchVersion  = []string{"0"}
	yamlType      = []string{mediaYAML}
)

// requestIDBytesMax bounds the id of a request that a response repeats.
const requestIDBytesMax = 128

// setHeaders sets the headers that each response has.
func setHeaders(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["X-Latestversion"], h["X-Minorversion"], h["X-Patchversion"] = latestVersion, minorVersion, patchVersion
	if id := r.Header[headerRequestID]; len(id) == 1 && id[0] != "" && len(id[0]) <= requestIDBytesMax {
		h[headerRequestID] = id
		return
	}
	h[headerRequestID] = []string{newUUID()}
}

// call is one request of the policy API or the PAP API.
type call struct {
	*service
	w http.ResponseWriter
	r *http.Request
	p door.Params
	// yaml is true if the response is YAML.
	yaml bool
}

// handle returns the handler of a route. serve writes the response, or returns an
// error, which write writes.
func (s *service) handle(write errorWriter, serve func(*call) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		setHeaders(w, r)
		c := &call{service: s, w: w, r: r, p: p}
		err := c.negotiate()
		if err == nil {
			err = serve(c)
		}
		if err != nil {
			s.fail(w, err, write)
		}
	}
}

// negotiate chooses the media type of the response.
func (c *call) negotiate() error {
	accept := c.r.Header.Values("Accept")
	if len(accept) == 0 {
		return nil
	}
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, _, _ := strings.Cut(part, ";")
		switch name = strings.ToLower(strings.TrimSpace(name)); {
		case name == "" || name == "*/*" || name == "application/*" || name == mediaJSON:
			return nil
		case isYAML(name):
			c.yaml = true
			return nil
		}
	}
	return &requestError{http.StatusNotAcceptable, "unexpected Accept: expected application/json or application/yaml"}
}

// isYAML reports whether a media type is one of YAML.
func isYAML(media string) bool {
	return media == mediaYAML || media == "application/x-yaml" || media == "text/yaml"
}

// bodyIsYAML returns whether the body of a request is YAML. It fails if it is
// neither YAML nor JSON.
func bodyIsYAML(r *http.Request) (bool, error) {
	given := r.Header.Get("Content-Type")
	if given == "" || given == mediaJSON {
		return false, nil
	}
	media, _, err := mime.ParseMediaType(given)
	switch {
	case err == nil && media == mediaJSON:
		return false, nil
	case err == nil && isYAML(media):
		return true, nil
	}
	return false, &requestError{http.StatusUnsupportedMediaType, "unexpected Content-Type: expected application/json or application/yaml"}
}

// body reads the request's body as a value.
func (c *call) body() (tosca.Value, error) {
	yaml, err := bodyIsYAML(c.r)
	if err != nil {
		return tosca.Value{}, err
	}
	body, err := door.ReadBody(c.r)
	if err != nil {
		return tosca.Value{}, err
	}
	defer body.Free()
	if yaml {
		return tosca.ParseYAML(body.Bytes)
	}
	return tosca.ParseJSON(body.Bytes)
}

// template reads the request's body as a service template.
func (c *call) template() (*tosca.Template, error) {
	v, err := c.body()
	if err != nil {
		return nil, err
	}
	return tosca.ReadTemplate(&v)
}

// answer writes a value as the response.
func (c *call) answer(status int, v *tosca.Value) error {
	if !c.yaml {
		door.WriteJSON(c.w, status, tosca.AppendJSON(nil, v))
		return nil
	}
	text, err := tosca.PrintYAML(v)
	if err != nil {
		return err
	}
	c.w.Header()["Content-Type"] = yamlType
	c.w.WriteHeader(status)
	c.w.Write(text)
	return nil
}

// answerAny writes a Go value as the response, by its JSON form.
func (c *call) answerAny(status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if !c.yaml {
		door.WriteJSON(c.w, status, text)
		return nil
	}
	value, err := tosca.ParseJSON(text)
	if err != nil {
		return err
	}
	return c.answer(status, &value)
}

// query returns a parameter of the query. It fails if it is given twice.
func (c *call) query(name string) (value string, given bool, err error) {
	if c.r.URL.RawQuery == "" {
		return "", false, nil
	}
	values := c.r.URL.Query()[name]
	if len(values) > 1 {
		return "", false, &requestError{http.StatusBadRequest, "the parameter " + name + " comes twice"}
	}
	if len(values) == 0 {
		return "", false, nil
	}
	return values[0], true, nil
}

// user returns the name of the caller, or "".
func (c *call) user() string { return door.CallerOf(c.r.Context()).ID }

// isInput reports whether an error is one of the text of a request.
func isInput(err error) bool {
	_, ok := errors.AsType[*tosca.Error](err)
	return ok
}

// newUUID returns a random UUID (RFC 9562, version 4). It is not secret.
func newUUID() string {
	high, low := rand.Uint64(), rand.Uint64()
	high, low = high&^0xf000|0x4000, low&^(3<<62)|2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&(1<<48-1))
}
