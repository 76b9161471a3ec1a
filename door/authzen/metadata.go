package authzen

import (
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/ostiary/ostiary/door"
)

// configuration serves the metadata document of a store, or of the default
// store. Anyone may read it without authentication, so it contains nothing about
// the store, not even whether it exists.
func (s *service) configuration(w http.ResponseWriter, r *http.Request, p door.Params) {
	echoRequestID(w, r)
	base := s.options.URL
	if base == "" {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		base = (&url.URL{Scheme: scheme, Host: r.Host}).String()
	}
	if store := p.At(0); store != "" {
		base += "/authzen/" + url.PathEscape(store)
	}
	out, err := json.Marshal(struct {
		Base        string `json:"policy_decision_point"`
		Evaluation  string `json:"access_evaluation_endpoint"`
		Evaluations string `json:"access_evaluations_endpoint"`
		Subject     string `json:"search_subject_endpoint"`
		Resource    string `json:"search_resource_endpoint"`
		Action      string `json:"search_action_endpoint"`
	}{base, base + "/access/v1/evaluation", base + "/access/v1/evaluations", base + "/access/v1/search/subject",
		base + "/access/v1/search/resource", base + "/access/v1/search/action"})
	if err != nil {
		writeError(w, err)
		return
	}
	door.WriteJSON(w, http.StatusOK, out)
}
