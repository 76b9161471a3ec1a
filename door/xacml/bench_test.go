package xacml_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/xacml"
)

// BenchmarkHTTP sends POST pdp over loopback on one connection, in XML and in JSON,
// to the door and to a server that reads the request and answers with the same bytes
// without any work. The domain has one policy of one rule. The difference between
// the two is the time of the door.
func BenchmarkHTTP(b *testing.B) {
	c := newClient(b, open(b, xacml.Options{}))
	const policy = `attribute role { category = subjectCat id = "role" type = string }
policy p { apply denyUnlessPermit rule r { target clause role == "doctor" permit } }`
	if w := c.send(http.MethodPut, "/xacml/v3/root", policy, "Content-Type", "text/plain"); w.Code >= 300 {
		b.Fatal(w.Code, w.Body)
	}
	for name, form := range map[string]struct{ media, body string }{
		"xml":  {"application/xacml+xml", `<Request xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" ReturnPolicyIdList="false" CombinedDecision="false"><Attributes Category="urn:oasis:names:tc:xacml:1.0:subject-category:access-subject"><Attribute AttributeId="role" IncludeInResult="false"><AttributeValue DataType="http://www.w3.org/2001/XMLSchema#string">doctor</AttributeValue></Attribute></Attributes></Request>`},
		"json": {"application/xacml+json", `{"Request":{"AccessSubject":{"Attribute":[{"AttributeId":"role","Value":"doctor"}]}}}`},
	} {
		w := c.send(http.MethodPost, "/xacml/v3/pdp", form.body, "Content-Type", form.media)
		if w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte("Permit")) {
			b.Fatal(w.Code, w.Body)
		}
		answer := bytes.Clone(w.Body.Bytes())
		b.Run(name+"/door", func(b *testing.B) { exchange(b, c.serve, form.media, form.body, answer) })
		b.Run(name+"/nothing", func(b *testing.B) {
			exchange(b, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", form.media)
				_, _ = w.Write(answer)
			}, form.media, form.body, answer)
		})
	}
}

// serve serves a request with the route of the door.
func (c *client) serve(w http.ResponseWriter, r *http.Request) {
	var p door.Params
	route, _ := c.router.Find(r.Method, r.URL.EscapedPath(), &p)
	route.Serve(w, r, p)
}

// exchange sends requests to a server on loopback and compares each answer.
func exchange(b *testing.B, serve http.HandlerFunc, media, body string, answer []byte) {
	b.Helper()
	s := httptest.NewServer(serve)
	defer s.Close()
	b.ReportAllocs()
	var got bytes.Buffer
	for b.Loop() {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL+"/xacml/v3/pdp", bytes.NewReader([]byte(body)))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", media)
		response, err := s.Client().Do(r)
		if err != nil {
			b.Fatal(err)
		}
		got.Reset()
		_, err = got.ReadFrom(response.Body)
		_ = response.Body.Close()
		if err != nil || !bytes.Equal(got.Bytes(), answer) {
			b.Fatal(got.String(), err)
		}
	}
}
