package authzen

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/ostiary/ostiary/door"
)

// configuration is the metadata document of a store, or of the default one. It
// tells where the endpoints are and nothing of the store, not even whether it
// exists, since it is read before anybody is authenticated.
func (s *service) configuration(w http.ResponseWriter, r *http.Request, p door.Params) {
	echo(w, r)
	point := s.options.URL
	if point == "" {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		point = (&url.URL{Scheme: scheme, Host: r.Host}).String()
	}
	if store := p.At(0); store != "" {
		point += "/authzen/" + url.PathEscape(store)
	}
	out, err := json.Marshal(struct {
		Point       string `json:"policy_decision_point"`
		Evaluation  string `json:"access_evaluation_endpoint"`
		Evaluations string `json:"access_evaluations_endpoint"`
		Subject     string `json:"search_subject_endpoint"`
		Resource    string `json:"search_resource_endpoint"`
		Action      string `json:"search_action_endpoint"`
	}{point, point + "/access/v1/evaluation", point + "/access/v1/evaluations", point + "/access/v1/search/subject",
		point + "/access/v1/search/resource", point + "/access/v1/search/action"})
	if err != nil {
		fail(w, err)
		return
	}
	w.Header()["Content-Type"] = jsonType
	w.Write(out)
}
