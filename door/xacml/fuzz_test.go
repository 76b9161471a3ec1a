package xacml_test

import (
	"encoding/json"
	"testing"

	"github.com/ostiary/ostiary/door/xacml"
)

// FuzzRequests sends bodies and headers of any content to the operations that
// read one. Each response is JSON with a code, or a success; none is a failure of
// the server.
func FuzzRequests(f *testing.F) {
	for _, seed := range [][3]string{
		{`{"Request":{"Action":{}}}`, "application/xacml+json", "*/*;q=0.5"},
		{`{"tests":[{"name":"x","request":{"Request":{"Action":{}}},"response":"<Response/>"}],"change":{"clear":true}}`, "", "application/json"},
		{`{"category":"Action","request":{"Request":{"Resource":{}}},"candidates":["a"],"cursor":"eyJyIjoxfQ"}`, "application/json; charset=utf-8", ""},
		{`{"put":{"a":{"language":"text","text":"policy a { apply denyUnlessPermit rule r { permit } }"}},"expect":"o1.x"}`, "", ""},
		{`<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17"/>`, "application/xml;version=3.0", "application/xacml+xml;version=2.0, */*"},
		{`{"alias":"a","relations":"b"}`, "application/json", "a/b;q=2"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	router := newClient(f, open(f, xacml.Options{})).router
	f.Fuzz(func(t *testing.T, body, contentType, accept string) {
		c := &client{t, router}
		headers := []string{"Accept", accept}
		if contentType != "" {
			headers = append(headers, "Content-Type", contentType)
		}
		for _, path := range []string{"pdp", "explain", "search", "test", "validate", "policies", "domains"} {
			w := c.send("POST", "/xacml/v3/"+path, body, headers...)
			if w.Code/100 == 2 {
				continue
			}
			var p struct{ Code, Message string }
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code >= 500 || p.Code == "" || p.Message == "" {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		c.send("DELETE", "/xacml/v3/policies", "")
	})
}
