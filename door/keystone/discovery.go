package keystone

import (
	"net/http"

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
	var o object
	o.begin("version")
	c.version(&o, c.r)
	o.end()
	return c.write(http.StatusOK, &o)
}

// versions answers GET /, where the door has a port of its own.
func (s *service) versions(w http.ResponseWriter, r *http.Request) {
	var o object
	o.begin("versions")
	list(&o, "values", []*http.Request{r}, s.version)
	o.end()
	w.Header().Set("Location", s.base(r)+"/v3/")
	door.WriteJSON(w, http.StatusMultipleChoices, o.bytes())
}
