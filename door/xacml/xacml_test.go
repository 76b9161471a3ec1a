package xacml_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/xacml"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/message"
	"github.com/ostiary/ostiary/storage"
)

// open returns the door on a new engine.
func open(t testing.TB, o xacml.Options) *door.Door {
	t.Helper()
	return openOn(t, nil, o)
}

// openOn opens a door to an engine with a driver; nil is memory. A request for a revision
// that does not exist fails soon.
func openOn(t testing.TB, driver storage.Driver, o xacml.Options) *door.Door {
	t.Helper()
	e, err := ostiary.Open(context.Background(), ostiary.Options{Driver: driver, Bounds: authz.Bounds{FutureWait: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	d, err := xacml.New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestFailingScripts plays the scripts while operations of the storage fail.
func TestFailingScripts(t *testing.T) {
	t.Parallel()
	for _, reopen := range []bool{false, true} {
		doortest.Failing{Glob: "testdata/*.http", Reopen: reopen, Optional: []failing.Operation{failing.CloseState}, Open: func(t testing.TB, d *failing.Driver) *door.Door {
			return openOn(t, d, xacml.Options{})
		}}.Run(t)
	}
}

// client sends requests to a door without a network.
type client struct {
	t      testing.TB
	router *door.Router
}

func newClient(t testing.TB, d *door.Door) *client {
	t.Helper()
	r, err := door.NewRouter(d.Routes)
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, r}
}

// send sends a request with headers: names and values in turn.
func (c *client) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	c.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	var p door.Params
	route, _ := c.router.Find(method, r.URL.EscapedPath(), &p)
	if route == nil {
		c.t.Fatalf("no route for %s %s", method, path)
	}
	w := httptest.NewRecorder()
	route.Serve(w, r, p)
	return w
}

// TestScripts plays the scripts, each against a new engine.
func TestScripts(t *testing.T) {
	t.Parallel()
	doortest.Run(t, "testdata/*.http", func(t testing.TB) *door.Door { return open(t, xacml.Options{}) })
}

// TestConformance plays the conformance data of XACML 3.0 over HTTP: each request
// as XML and as JSON. A case without a response must be rejected with 4xx: its
// policies, or its request if the folder has a Policy.xml.ignore.
func TestConformance(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("OSTIARY_XACML_CONFORMANCE")
	if folder == "" {
		folder = "../../../shared/xacml-conformance"
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Skipf("no conformance data: set OSTIARY_XACML_CONFORMANCE to their folder (%v)", err)
	}
	c := newClient(t, open(t, xacml.Options{}))
	passed, all := 0, 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		all++
		if err := c.playCase(os.DirFS(filepath.Join(folder, e.Name()))); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		passed++
	}
	t.Logf("%d of %d cases passed", passed, all)
	if all == 0 {
		t.Error("the folder has no cases")
	}
}

// playCase plays one case.
func (c *client) playCase(dir fs.FS) error {
	deployed, err := c.deploy(dir)
	if err != nil {
		return err
	}
	has := func(name string) bool { _, err := fs.Stat(dir, name); return err == nil }
	if !has("Response.xml") && !has("Policy.xml.ignore") {
		if deployed == "" {
			return errors.New("the policies are accepted, expected a rejection")
		}
		return nil
	}
	if deployed != "" {
		return errors.New("the policies are rejected: " + deployed)
	}
	request, err := fs.ReadFile(dir, "Request.xml")
	if err != nil {
		return err
	}
	w := c.send("POST", "/xacml/v3/pdp", string(request), "Content-Type", "application/xacml+xml")
	if !has("Response.xml") {
		if w.Code/100 != 4 {
			return errors.New("the request is accepted, expected a rejection: " + w.Body.String())
		}
		return nil
	}
	expected, err := fs.ReadFile(dir, "Response.xml")
	if err != nil {
		return err
	}
	return c.compare(request, expected, w)
}

// compare compares the response as XML, and the one to the same request as JSON,
// with the expected one.
func (c *client) compare(request, expected []byte, w *httptest.ResponseRecorder) error {
	want, err := message.ParseXMLResponse(expected)
	if err != nil {
		return err
	}
	got, err := message.ParseXMLResponse(w.Body.Bytes())
	if err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/xacml+xml" {
		return errors.New(w.Body.String())
	}
	if d := policy.Differences(want, got); d != nil {
		return errors.New("as XML: " + strings.Join(d, "; "))
	}
	q, err := message.ReadXML(request)
	if err != nil {
		return err
	}
	w = c.send("POST", "/xacml/v3/pdp", string(message.PrintJSONRequest(q)), "Content-Type", "application/xacml+json")
	got, err = message.ParseJSONResponse(w.Body.Bytes())
	if err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/xacml+json" {
		return errors.New(w.Body.String())
	}
	if d := policy.Differences(want, got); d != nil {
		return errors.New("as JSON: " + strings.Join(d, "; "))
	}
	return nil
}

// deploy replaces the policies by those of a case. It returns the body of a
// rejection, or "".
func (c *client) deploy(dir fs.FS) (rejected string, err error) {
	if w := c.send("DELETE", "/xacml/v3/policies", ""); w.Code != http.StatusOK {
		return "", errors.New(w.Body.String())
	}
	root := "Policy.xml"
	var library []string
	err = fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Dir(name) != "." && path.Ext(name) == ".xml" {
			if path.Base(name) == root {
				root = name
			}
			library = append(library, name)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if _, err := fs.Stat(dir, root); err != nil {
		root += ".ignore"
	}
	put := func(path, file string) (string, error) {
		text, err := fs.ReadFile(dir, file)
		if err != nil {
			return "", err
		}
		w := c.send("PUT", path, string(text), "Content-Type", "application/xml")
		switch w.Code / 100 {
		case 2:
			return "", nil
		case 4:
			return w.Body.String(), nil
		}
		return "", errors.New(w.Body.String())
	}
	for _, file := range library {
		if rejected, err := put("/xacml/v3/policies/"+url.PathEscape(path.Base(file)), file); rejected != "" || err != nil {
			return rejected, err
		}
	}
	return put("/xacml/v3/root", root)
}

// TestDescription compares what the door declares with testdata/description.txt.
func TestDescription(t *testing.T) {
	t.Parallel()
	doortest.Description(t, open(t, xacml.Options{}), "testdata/description.txt")
}
