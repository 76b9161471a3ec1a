package keystone

import (
	"io"
	"net/http"
	"strings"

	"github.com/ostiary/ostiary/door"
)

// versionID and versionUpdated describe the newest version of the Identity API.
const (
	versionID      = "v3.14"
	versionUpdated = "2020-04-07T00:00:00Z"
)

// version appends the description of the API.
func (s *service) version(o *object, r *http.Request) {
	self := s.base(r) + "/v3/"
	o.text("id", versionID)
	o.text("status", "stable")
	o.text("updated", versionUpdated)
	list(o, "links", []string{self}, func(o *object, href string) {
		o.text("rel", "self")
		o.text("href", href)
	})
	list(o, "media-types", []string{"application/vnd.openstack.identity-v3+json"}, func(o *object, media string) {
		o.text("base", "application/json")
		o.text("type", media)
	})
}

// discover answers GET /v3.
func (c *call) discover() error {
	if wantsHome(c.R) {
		writeHome(c.W, c.home)
		return nil
	}
	var o object
	o.begin("version")
	c.version(&o, c.R)
	o.end()
	return c.write(http.StatusOK, &o)
}

// versions answers GET /.
func (s *service) versions(w http.ResponseWriter, r *http.Request, _ door.Params) {
	s.head(w, r)
	if wantsHome(r) {
		writeHome(w, s.rootHome)
		return
	}
	var o object
	o.begin("versions")
	list(&o, "values", []*http.Request{r}, s.version)
	o.end()
	w.Header().Set("Location", s.base(r)+"/v3/")
	door.WriteJSON(w, http.StatusMultipleChoices, o.bytes())
}

// pathHealth is where load balancers of OpenStack ask whether a service works.
const pathHealth = "/healthcheck"

// serveHealth answers GET /healthcheck, as oslo.middleware does.
func (s *service) serveHealth(w http.ResponseWriter, r *http.Request, serving bool) {
	s.head(w, r)
	status, reason := http.StatusOK, "OK"
	if !serving {
		status, reason = http.StatusServiceUnavailable, "UNAVAILABLE"
	}
	if serving && r.Method == http.MethodHead {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if strings.HasPrefix(r.Header.Get("Accept"), "application/json") {
		var o object
		o.boolean("detailed", false)
		o.texts("reasons", []string{reason})
		door.WriteJSON(w, status, o.bytes())
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	door.SetRetryAfter(w.Header(), status)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, reason) // net/http drops the body of a response to HEAD
}
