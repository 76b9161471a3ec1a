package onap

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
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
	door.Call
	// yaml is true if the response is YAML.
	yaml bool
}

// handle returns the handler of a route. serve writes the response, or returns an
// error, which write writes.
func (s *service) handle(write errorWriter, serve func(*call) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		setHeaders(w, r)
		c := &call{service: s, Call: door.Call{W: w, R: r, Params: p}}
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
	accept := c.R.Header.Values("Accept")
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

// yamlTypes are the media types of YAML.
var yamlTypes = []string{mediaYAML, "application/x-yaml", "text/yaml"}

// isYAML reports whether a media type is one of YAML.
func isYAML(media string) bool { return slices.Contains(yamlTypes, media) }

// bodyTypes are the media types of requests.
var bodyTypes = append([]string{mediaJSON}, yamlTypes...)

// body reads the request's body as a value.
func (c *call) body() (tosca.Value, error) {
	media, err := c.Media(bodyTypes...)
	if err != nil {
		return tosca.Value{}, err
	}
	body, err := c.Body()
	if err != nil {
		return tosca.Value{}, err
	}
	defer c.End() // the value is a copy
	if isYAML(media) {
		return tosca.ParseYAML(body)
	}
	return tosca.ParseJSON(body)
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
		door.WriteJSON(c.W, status, tosca.AppendJSON(nil, v))
		return nil
	}
	text, err := tosca.PrintYAML(v)
	if err != nil {
		return err
	}
	c.W.Header()["Content-Type"] = yamlType
	c.W.WriteHeader(status)
	c.W.Write(text)
	return nil
}

// answerAny writes a Go value as the response, by its JSON form.
func (c *call) answerAny(status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if !c.yaml {
		door.WriteJSON(c.W, status, text)
		return nil
	}
	value, err := tosca.ParseJSON(text)
	if err != nil {
		return err
	}
	return c.answer(status, &value)
}

// parameter returns a parameter of the query. It fails if it is given twice.
func (c *call) parameter(name string) (value string, given bool, err error) {
	values, err := c.Query()
	if err != nil || len(values[name]) == 0 {
		return "", false, err
	}
	if len(values[name]) > 1 {
		return "", false, &door.Refusal{Reason: door.BadQuery, Detail: "the parameter " + name + " comes twice"}
	}
	return values[name][0], true, nil
}

// user returns the name of the caller, or "".
func (c *call) user() string { return door.CallerOf(c.Context()).ID }

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
