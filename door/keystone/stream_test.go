package keystone_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage/memory"
)

// partMax is the largest write that the server does not count as memory that waits
// for a slow client, in bytes.
const partMax = 16 << 10

// parts is a response writer that records the parts of a response.
type parts struct {
	*httptest.ResponseRecorder
	sizes []int
	// after, if not nil, is called with the number of parts after each of them.
	after func(n int)
	err   error // of every further part
}

func (p *parts) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	p.sizes = append(p.sizes, len(b))
	n, err := p.ResponseRecorder.Write(b)
	if p.after != nil {
		p.after(len(p.sizes))
	}
	return n, err
}

// stream sends a GET request of the administrator, and returns whether the response
// was broken off.
func (c *cloud) stream(ctx context.Context, path string, w *parts) (broken bool) {
	c.t.Helper()
	w.ResponseRecorder = httptest.NewRecorder()
	r := httptest.NewRequest("GET", path, nil).WithContext(ctx)
	r.Header.Set("X-Auth-Token", c.admin)
	var p door.Params
	route, _ := c.router.Find("GET", r.URL.EscapedPath(), &p)
	defer func() {
		if v := recover(); v != nil {
			if broken = v == http.ErrAbortHandler; !broken {
				panic(v)
			}
		}
	}()
	route.Serve(w, r, p)
	return false
}

// crowd makes n users, each with a grant on a project.
func (c *cloud) crowd(n int) {
	c.t.Helper()
	project := c.ok(201, "POST", "/v3/projects", `{"project":{"name":"crowd"}}`, "project")["id"].(string)
	for i := range n {
		id := c.ok(201, "POST", "/v3/users", fmt.Sprintf(`{"user":{"name":"crowd%03d","description":%q}}`, i, strings.Repeat("x", 200)), "user")["id"].(string)
		c.ok(204, "PUT", "/v3/projects/"+project+"/users/"+id+"/roles/"+c.roles["reader"], "", "")
	}
}

// rowsOf returns the rows of a list, in a canonical form.
func rowsOf(t *testing.T, text []byte, member string) (rows []string) {
	t.Helper()
	var body map[string]json.RawMessage
	var all []json.RawMessage
	if err := errors.Join(json.Unmarshal(text, &body), json.Unmarshal(body[member], &all)); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		rows = append(rows, string(r))
	}
	slices.Sort(rows)
	return rows
}

// longLists are lists that need several parts, by their paths.
var longLists = map[string]string{
	"/v3/users": "users", "/v3/users?limit=99": "users", "/v3/users?name__contains=crowd": "users",
	"/v3/role_assignments": "role_assignments", "/v3/role_assignments?effective&include_names": "role_assignments",
}

// TestPrepareLarge checks that a deployment that takes longer to load than requests
// wait is ready after Prepare.
func TestPrepareLarge(t *testing.T) {
	t.Parallel()
	driver := memory.New()
	t.Cleanup(func() { driver.Close() })
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver, SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "k", Aliases: map[string]string{keystone.Name: keystone.DefaultStore}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := identity.Open(t.Context(), store, settings.Deployment{Rounds: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Bootstrap(t.Context(), identity.BootstrapOptions{Password: "secret"}), e.Close()); err != nil {
		t.Fatal(err)
	}
	if e, err = ostiary.Open(t.Context(), ostiary.Options{Driver: driver, SecretKey: &[32]byte{1}, Bounds: authz.Bounds{LoadWait: 1}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	d, err := keystone.New(e, keystone.Options{Identity: settings.Deployment{Rounds: 4}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Prepare(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLongLists checks that a long list is sent in small parts, and that it is of
// one revision although users and grants are removed and made between its parts.
func TestLongLists(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.crowd(120)
	for path, member := range longLists {
		before := c.do("GET", path, c.admin, "")
		w := &parts{}
		w.after = func(n int) {
			if n != 1 {
				return
			}
			all := c.do("GET", "/v3/users?name__contains=crowd", c.admin, "").body["users"].([]any)
			for _, user := range []any{all[0], all[len(all)-1]} { // one that was sent, and one that was not
				c.ok(204, "DELETE", "/v3/users/"+user.(map[string]any)["id"].(string), "", "")
			}
			c.crowdMember()
		}
		if c.stream(t.Context(), path, w) {
			t.Fatalf("%s: broken off", path)
		}
		if got, want := rowsOf(t, w.Body.Bytes(), member), rowsOf(t, []byte(before.text), member); !slices.Equal(got, want) {
			t.Errorf("%s: %d rows, want the %d of before the changes", path, len(got), len(want))
		}
		if len(w.sizes) < 2 || slices.Max(w.sizes) > partMax || w.Result().ContentLength >= 0 {
			t.Errorf("%s: parts of %d bytes, content length %d", path, w.sizes, w.Result().ContentLength)
		}
		if after := c.do("GET", path, c.admin, ""); !strings.Contains(path, "limit=") && slices.Equal(rowsOf(t, []byte(after.text), member), rowsOf(t, []byte(before.text), member)) {
			t.Errorf("%s: the list does not show the changes later", path)
		}
	}
	if short := c.do("GET", "/v3/roles", c.admin, ""); short.header.Get("Content-Length") != fmt.Sprint(len(short.text)) {
		t.Errorf("a short list has the length %q, want %d", short.header.Get("Content-Length"), len(short.text))
	}
}

// crowdMember makes one more user with a grant.
func (c *cloud) crowdMember() {
	c.t.Helper()
	name := fmt.Sprint("crowd-more-", time.Now().UnixNano())
	id := c.ok(201, "POST", "/v3/users", `{"user":{"name":"`+name+`"}}`, "user")["id"].(string)
	project := c.do("GET", "/v3/projects?name=crowd", c.admin, "").body["projects"].([]any)[0].(map[string]any)["id"].(string)
	c.ok(204, "PUT", "/v3/projects/"+project+"/users/"+id+"/roles/"+c.roles["reader"], "", "")
}

// TestPages checks that the pages of a list have as many records as their limit,
// that the links lead through all of them, and that together they are the list.
func TestPages(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.crowd(7)
	want := rowsOf(t, []byte(c.do("GET", "/v3/users", c.admin, "").text), "users")
	for _, limit := range []int{1, 3, len(want) - 1, len(want), len(want) + 1} {
		var got []string
		for path := fmt.Sprintf("/v3/users?limit=%d", limit); path != ""; {
			a := c.do("GET", path, c.admin, "")
			rows := rowsOf(t, []byte(a.text), "users")
			next, _ := a.body["links"].(map[string]any)["next"].(string)
			if left := len(want) - len(got); len(rows) != min(limit, left) || (next != "") != (left > limit) || (a.body["truncated"] == true) != (next != "") {
				t.Fatalf("%s: %d rows and the next page %q, with %d left", path, len(rows), next, left)
			}
			got, path = append(got, rows...), strings.TrimPrefix(next, "http://keystone")
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("limit %d: the pages have %d rows, want %d", limit, len(got), len(want))
		}
	}
}

// TestBrokenLists checks that a list that fails after its first part is broken off,
// over HTTP too, and that one that fails before is an error response.
func TestBrokenLists(t *testing.T) {
	t.Parallel()
	var reported []error
	c := newCloudWith(t, settings.Deployment{Rounds: 4}, func(o *keystone.Options) {
		o.Report = func(err error) { reported = append(reported, err) }
	})
	c.crowd(1100) // a walk looks for the end of its context after every 1024 records
	gone := errors.New("gone")
	for _, path := range []string{"/v3/users", "/v3/role_assignments"} {
		if w := (&parts{}); !c.stream(t.Context(), path, &parts{err: gone}) || len(w.sizes) != 0 {
			t.Errorf("%s: not broken off although the client is gone", path)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &parts{after: func(int) { cancel() }}
	if !c.stream(ctx, "/v3/users", w) || json.Valid(w.Body.Bytes()) {
		t.Errorf("a list whose context ends is complete: %d parts", len(w.sizes))
	}
	if w := (&parts{}); c.stream(ctx, "/v3/users", w) || w.Code == http.StatusOK {
		t.Errorf("a list whose context has ended: status %d", w.Code)
	}
	if len(reported) != 0 {
		t.Errorf("reported %v, although clients ended the requests", reported)
	}
	c.brokenOverHTTP(t)
}

// brokenOverHTTP checks that a client of HTTP notices that a list is broken off.
func (c *cloud) brokenOverHTTP(t *testing.T) {
	var p door.Params
	route, _ := c.router.Find("GET", "/v3/users", &p)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		route.Serve(cancelling{w, cancel}, r.WithContext(ctx), p)
	}))
	defer server.Close()
	request, err := http.NewRequest("GET", server.URL+"/v3/users", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Auth-Token", c.admin)
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); !errors.Is(err, io.ErrUnexpectedEOF) || response.StatusCode != http.StatusOK {
		t.Errorf("status %d, %d bytes, error %v, want an unexpected end", response.StatusCode, len(text), err)
	}
}

// cancelling ends the context of a request after its first part.
type cancelling struct {
	http.ResponseWriter
	cancel context.CancelFunc
}

func (w cancelling) Write(b []byte) (int, error) {
	defer w.cancel()
	return w.ResponseWriter.Write(b)
}

// late is a context whose deadline passes when late is set, without a timer.
type late struct {
	context.Context
	late *bool
}

func (l late) Err() error {
	if *l.late {
		return &door.Refusal{Reason: door.TimedOut, Bound: "RequestTimeout"}
	}
	return l.Context.Err()
}

// TestLateLists checks that the timeout of a request ends a list only before its
// first part: later, a slow client takes the time.
func TestLateLists(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.crowd(1100)
	for path, member := range map[string]string{"/v3/users": "users", "/v3/role_assignments": "role_assignments"} {
		passed := false
		w := &parts{after: func(int) { passed = true }}
		if c.stream(late{t.Context(), &passed}, path, w) || len(rowsOf(t, w.Body.Bytes(), member)) < 1100 {
			t.Errorf("%s: broken off by the timeout of the request", path)
		}
		if c.stream(late{t.Context(), &passed}, path, w) || w.Code != http.StatusGatewayTimeout {
			t.Errorf("%s after its timeout: status %d", path, w.Code)
		}
	}
}
