package keystone

import (
	_ "embed" // for relations
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/ostiary/ostiary/door"
)

// typeHome is the media type of a document that names the resources of an API by their
// relations (draft-nottingham-json-home).
const typeHome = "application/json-home"

// relationBase begins the relation types of the Identity API, and of its parameters.
const relationBase = "https://docs.openstack.org/api/openstack-identity/3/"

// relations has a line for each resource: its relation type without relationBase, its
// path below /v3, and "experimental" if Keystone marks it so.
//
//go:embed home.txt
var relations string

// parameters are the relation types of parameters that are not "param/" and the name.
var parameters = map[string]string{
	"access_token_id": "ext/OS-OAUTH1/1.0/param/access_token_id", "consumer_id": "ext/OS-OAUTH1/1.0/param/consumer_id",
	"request_token_id": "ext/OS-OAUTH1/1.0/param/request_token_id", "trust_id": "ext/OS-TRUST/1.0/param/trust_id",
	"endpoint_group_id": "ext/OS-EP-FILTER/1.0/param/endpoint_group_id",
	"idp_id":            "ext/OS-FEDERATION/1.0/param/idp_id", "mapping_id": "ext/OS-FEDERATION/1.0/param/mapping_id",
	"protocol_id": "ext/OS-FEDERATION/1.0/param/protocol_id", "service_provider_id": "ext/OS-FEDERATION/1.0/param/service_provider_id",
	"group": "param/config_group", "option": "param/config_option", "value": "param/tag_value",
	"implied_role_id": "param/role_id", "prior_role_id": "param/role_id",
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// homeResource is a resource of a home document. It has a path, or the template of one
// with the relation types of the parameters.
type homeResource struct {
	Path       string            `json:"href,omitempty"`
	Template   string            `json:"href-template,omitempty"`
	Parameters map[string]string `json:"href-vars,omitempty"`
	Hints      map[string]string `json:"hints,omitempty"`
}

// home returns the home document with the paths below a prefix.
func home(prefix string) ([]byte, error) {
	all := map[string]homeResource{}
	for line := range strings.Lines(relations) {
		fields := strings.Fields(line)
		path := prefix + fields[1]
		r := homeResource{Path: path}
		if names := placeholder.FindAllStringSubmatch(path, -1); names != nil {
			r = homeResource{Template: path, Parameters: map[string]string{}}
			for _, n := range names {
				relation, ok := parameters[n[1]]
				if !ok {
					relation = "param/" + n[1]
				}
				r.Parameters[n[1]] = relationBase + relation
			}
		}
		if len(fields) > 2 {
			r.Hints = map[string]string{"status": fields[2]}
		}
		all[relationBase+fields[0]] = r
	}
	return json.Marshal(map[string]any{"resources": all})
}

// wantsHome reports whether the client prefers the home document to the versions.
func wantsHome(r *http.Request) bool {
	accepted := door.Accepted(r, nil)
	return accepted.Quality(typeHome) > accepted.Quality("application/json")
}

func writeHome(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", typeHome)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // the client may be gone
}
