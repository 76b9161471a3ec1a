package xacml_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/xacml"
)

const (
	permitText = `<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="p" Version="1.0" RuleCombiningAlgId="urn:oasis:names:tc:xacml:1.0:rule-combining-algorithm:first-applicable"><Target/><Rule RuleId="r" Effect="Permit"/></Policy>`
	actionText = `{"Request":{"Action":{"Attribute":[{"AttributeId":"x","Value":"1"}]}}}`
)

// TestBroken checks that every call answers a body that cannot be read, a canceled
// request and a closed engine with an error.
func TestBroken(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(context.Background(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := xacml.New(e, xacml.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, d)
	if w := c.send("PUT", "/xacml/v3/root", permitText, "Content-Type", "application/xml"); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	if w := c.send("PUT", "/xacml/v3/policies/a", permitText, "Content-Type", "application/xml"); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	calls := []struct{ method, path, media, body string }{
		{"GET", "/domains", "", ""}, {"POST", "/domains", "application/json", `{"name":"n","alias":"other"}`},
		{"POST", "/pdp", "application/json", actionText}, {"POST", "/explain", "application/json", actionText},
		{"GET", "/domain", "", ""}, {"GET", "/policies", "", ""}, {"POST", "/policies", "application/json", `{"remove":[]}`},
		{"GET", "/policies/a", "", ""}, {"PUT", "/policies/b", "application/xml", permitText}, {"GET", "/policies/a/versions", "", ""},
		{"GET", "/root", "", ""}, {"PUT", "/root", "application/xml", permitText}, {"GET", "/root/versions", "", ""},
		{"POST", "/validate", "application/xml", permitText}, {"POST", "/test", "application/json", `{"tests":[{"request":` + actionText + `,"response":{"Response":[{"Decision":"Permit"}]}}]}`},
		{"POST", "/search", "application/json", `{"request":` + actionText + `,"category":"Resource","candidates":["a"]}`},
		{"DELETE", "/policies/b", "", ""}, {"DELETE", "/policies", "", ""},
	}
	send := func(ctx context.Context, method, path, media string, body *http.Request) *httptest.ResponseRecorder {
		r := body.WithContext(ctx)
		if media != "" {
			r.Header.Set("Content-Type", media)
		}
		var p door.Params
		route, _ := c.router.Find(method, r.URL.EscapedPath(), &p)
		if route == nil {
			t.Fatalf("no route for %s %s", method, path)
		}
		w := httptest.NewRecorder()
		route.Serve(w, r, p)
		return w
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, x := range calls {
		path := "/xacml/v3" + x.path
		if x.body != "" {
			w := send(context.Background(), x.method, path, x.media, httptest.NewRequest(x.method, path, iotest.ErrReader(errors.New("broken"))))
			if w.Code/100 == 2 {
				t.Errorf("%s %s, a broken body: %d %s", x.method, x.path, w.Code, w.Body)
			}
		}
		w := send(canceled, x.method, path, x.media, httptest.NewRequest(x.method, path, strings.NewReader(x.body)))
		if x.method != "GET" && x.path != "/validate" && x.path != "/policies" && w.Code/100 == 2 && !strings.Contains(w.Body.String(), "Indeterminate") {
			t.Errorf("%s %s, canceled: %d %s", x.method, x.path, w.Code, w.Body)
		}
	}
	for _, x := range calls {
		path := "/xacml/v3" + x.path
		if w := send(context.Background(), x.method, path, x.media, httptest.NewRequest(x.method, path, strings.NewReader(x.body))); w.Code/100 != 2 {
			t.Errorf("%s %s: %d %s", x.method, x.path, w.Code, w.Body)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, x := range calls {
		path := "/xacml/v3" + x.path
		if w := send(context.Background(), x.method, path, x.media, httptest.NewRequest(x.method, path, strings.NewReader(x.body))); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s %s, closed: %d %s", x.method, x.path, w.Code, w.Body)
		}
	}
}

// TestDomainPages lists domains in pages, and checks the bounds of limits and of the
// number of tests.
func TestDomainPages(t *testing.T) {
	t.Parallel()
	c := newClient(t, open(t, xacml.Options{}))
	var want []string
	for i := range 5 {
		alias := "d" + strconv.Itoa(i)
		want = append(want, alias)
		if w := c.send("POST", "/xacml/v3/domains", `{"name":"n","alias":"`+alias+`"}`, "Content-Type", "application/json"); w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
	}
	for limit := 1; limit <= 6; limit++ {
		var got []string
		pages := 0
		for after := ""; ; pages++ {
			path := "/xacml/v3/domains?limit=" + strconv.Itoa(limit)
			if after != "" {
				path += "&after=" + after
			}
			var page struct {
				Domains []struct{ Alias string }
				Next    string
			}
			if err := json.Unmarshal(c.send("GET", path, "").Body.Bytes(), &page); err != nil || len(page.Domains) > limit || pages > 5 {
				t.Fatalf("limit %d: %d domains, page %d, %v", limit, len(page.Domains), pages, err)
			}
			for _, d := range page.Domains {
				got = append(got, d.Alias)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		slices.Sort(got) // the ids of one millisecond are in no order
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	for path, want := range map[string]int{"/domains?limit=1000": 200, "/domains?limit=1001": 400, "/domains?limit=0": 400, "/domains?limit=x": 400} {
		if w := c.send("GET", "/xacml/v3"+path, ""); w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for limit, want := range map[string]int{"0": 400, "1": 200, "10000": 200, "10001": 400} {
		w := c.send("POST", "/stores/d0/xacml/v3/search", `{"request":`+actionText+`,"category":"Resource","candidates":["a"],"limit":`+limit+`}`, "Content-Type", "application/json")
		if w.Code != want {
			t.Errorf("limit %s: %d %s", limit, w.Code, w.Body)
		}
	}
	one := `{"request":` + actionText + `,"response":{"Response":[{"Decision":"NotApplicable"}]}}`
	for n, want := range map[int]int{10_000: 200, 10_001: 400} {
		w := c.send("POST", "/stores/d0/xacml/v3/test", `{"tests":[`+strings.TrimSuffix(strings.Repeat(one+",", n), ",")+`]}`, "Content-Type", "application/json")
		if w.Code != want {
			t.Errorf("%d tests: %d %.200s", n, w.Code, w.Body)
		}
	}
	for name, want := range map[string]int{"": 400, "?name=other": 400} {
		if w := c.send("POST", "/stores/d0/xacml/v3/validate"+name, strings.Replace(permitText, "first-applicable", "none", 1), "Content-Type", "application/xml"); w.Code != want {
			t.Errorf("validate%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := c.send("POST", "/stores/d0/xacml/v3/validate?name=other", permitText, "Content-Type", "application/xml"); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestPolicyPages lists more policies than one page has without a limit.
func TestPolicyPages(t *testing.T) {
	t.Parallel()
	c := newClient(t, open(t, xacml.Options{}))
	const policies = 1_001
	for i := range policies {
		name := "p" + strings.Map(func(r rune) rune { return r - '0' + 'a' }, strconv.Itoa(10_000+i))
		if w := c.send("PUT", "/xacml/v3/policies/"+name, "policy "+name+" { apply denyUnlessPermit rule all { permit } }", "Content-Type", "text/plain"); w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
	}
	for query, want := range map[string]int{"": 1_000, "?limit=999": 999, "?limit=1000": 1_000, "?limit=1001": policies, "?limit=10000": policies} {
		var page struct {
			Policies []struct{ Name string }
			Next     string
		}
		if err := json.Unmarshal(c.send("GET", "/xacml/v3/policies"+query, "").Body.Bytes(), &page); err != nil || len(page.Policies) != want || (page.Next == page.Policies[want-1].Name) != (want < policies) {
			t.Errorf("%q: %d policies, next %q, %v", query, len(page.Policies), page.Next, err)
		}
	}
}

// TestFirstChange sends each request to the domain of a relation store that has none:
// only changes of policies make it.
func TestFirstChange(t *testing.T) {
	t.Parallel()
	for _, request := range []string{
		"POST /policies", "PUT /policies/a", "PUT /root", "DELETE /policies", "DELETE /policies/a", "POST /validate",
		"POST /test", "POST /search", "POST /pdp", "POST /explain", "GET /policies", "GET /policies/a", "GET /policies/a/versions",
		"GET /policies/a/versions/1", "GET /root", "GET /root/versions", "GET /root/versions/1", "GET /domain",
	} {
		e, err := ostiary.Open(t.Context(), ostiary.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "relations"})
		if err != nil {
			t.Fatal(err)
		}
		d, err := xacml.New(e, xacml.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(t, d)
		method, path, _ := strings.Cut(request, " ")
		body, header := `policy a { apply denyUnlessPermit rule all { permit } }`, "text/plain"
		if method == "POST" {
			body, header = `{"put":{"a":{"language":"text","text":"policy a { apply denyUnlessPermit rule all { permit } }"}}}`, "application/json"
		}
		w := c.send(method, "/stores/"+store.ID().String()+"/xacml/v3"+path, body, "Content-Type", header)
		changes := method == "PUT" || request == "POST /policies"
		if (w.Code == http.StatusOK || w.Code == http.StatusCreated) != changes {
			t.Errorf("%s: %d %s", request, w.Code, w.Body)
		}
		if domains := c.send("GET", "/xacml/v3/domains", "").Body.String(); strings.Contains(domains, `"alias"`) != changes {
			t.Errorf("domains after %s: %s", request, domains)
		}
	}
}

// TestExpected checks that a change which expects another revision changes nothing.
func TestExpected(t *testing.T) {
	t.Parallel()
	c := newClient(t, open(t, xacml.Options{}))
	media := []string{"Content-Type", "application/xml"}
	var first struct{ Token string }
	if err := json.Unmarshal(c.send("PUT", "/xacml/v3/policies/a", permitText, media...).Body.Bytes(), &first); err != nil || first.Token == "" {
		t.Fatal(first, err)
	}
	if w := c.send("PUT", "/xacml/v3/policies/b", permitText, media...); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	for _, x := range [][3]string{{"PUT", "/policies/a", permitText}, {"PUT", "/policies/d", permitText}, {"PUT", "/root", permitText}, {"DELETE", "/policies/a", ""}, {"DELETE", "/policies", ""}} {
		if w := c.send(x[0], "/xacml/v3"+x[1]+"?expect="+first.Token, x[2], media...); w.Code != http.StatusPreconditionFailed {
			t.Errorf("%s %s: %d %s", x[0], x[1], w.Code, w.Body)
		}
	}
	var now struct {
		Token    string
		Policies int
	}
	if err := json.Unmarshal(c.send("GET", "/xacml/v3/domain", "").Body.Bytes(), &now); err != nil || now.Policies != 2 {
		t.Fatal(now, err)
	}
	for token, want := range map[string]int{first.Token: http.StatusPreconditionFailed, now.Token: http.StatusOK} {
		w := c.send("POST", "/xacml/v3/policies", `{"put":{"b":{"language":"text","text":"policy b { apply denyUnlessPermit rule all { permit } }"}},"expect":"`+token+`"}`, "Content-Type", "application/json")
		if w.Code != want {
			t.Errorf("a change of policies: %d %s, expected %d", w.Code, w.Body, want)
		}
	}
	if err := json.Unmarshal(c.send("GET", "/xacml/v3/domain", "").Body.Bytes(), &now); err != nil {
		t.Fatal(err)
	}
	if w := c.send("DELETE", "/xacml/v3/policies?expect="+now.Token, "", media...); w.Code != http.StatusOK {
		t.Error(w.Code, w.Body)
	}
}

// TestSearchParts checks the parts that a search must have, and that a candidate
// has the advice of the policies.
func TestSearchParts(t *testing.T) {
	t.Parallel()
	c := newClient(t, open(t, xacml.Options{}))
	advised := strings.Replace(permitText, `Effect="Permit"/></Policy>`, `Effect="Permit"/><AdviceExpressions><AdviceExpression AdviceId="hint" AppliesTo="Permit"/></AdviceExpressions></Policy>`, 1)
	if w := c.send("PUT", "/xacml/v3/root", advised, "Content-Type", "application/xml"); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	for body, want := range map[string]string{
		`{"category":"Resource","candidates":["a"]}`:                                "request is missing",
		`{"request":` + actionText + `,"candidates":["a"]}`:                         "category is missing",
		`{"request":` + actionText + `,"category":"Resource","candidates":["a"]}`:   `"AssociatedAdvice":[{"Id":"hint"`,
		`{"request":` + actionText + `,"category":"Resource","more":1}`:             "unknown member",
		`{"request":` + actionText + `,"category":"Resource","candidates":["a"]`:    "malformed",
		`{"request":` + actionText + `,"category":"Resource","candidates":["a",1]}`: "malformed",
	} {
		if w := c.send("POST", "/xacml/v3/search", body, "Content-Type", "application/json"); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %q", body, w.Code, w.Body, want)
		}
	}
}
