package permify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// TestBrokenBodies sends a body that ends with an error to each route, and one that
// is no JSON.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	_, d := start(t, Options{})
	large := &door.Refusal{Reason: door.TooLarge, Bound: "BodyBytes", Limit: 7}
	for _, route := range d.Routes {
		for _, c := range []struct {
			body   io.Reader
			status int
			text   string
		}{
			{iotest.ErrReader(errors.New("the connection is gone")), 400, `{"code":3,"message":"the request's body cannot be read","details":[]}`},
			{iotest.ErrReader(large), 413, `{"code":8,"message":"the request is too large: the bound BodyBytes is 7","details":[]}`},
			{strings.NewReader("{"), 400, `{"code":3,"message":"proto: `},
		} {
			w := httptest.NewRecorder()
			route.Serve(w, httptest.NewRequest(route.Method, "/", c.body), door.Params{})
			if w.Code != c.status || !strings.HasPrefix(w.Body.String(), c.text) {
				t.Errorf("%s: %d %s, want %d %s", route.Name, w.Code, w.Body, c.status, c.text)
			}
		}
	}
}

// TestRetry checks that an error that passes asks the client to repeat the request,
// and others do not.
func TestRetry(t *testing.T) {
	t.Parallel()
	for kind, want := range map[error]bool{authz.ErrLoading: true, authz.ErrFuture: true, authz.ErrClosed: true, authz.ErrBound: false} {
		err := translateError(&authz.Error{Op: "check", Kind: kind})
		w := httptest.NewRecorder()
		serveError(w, err)
		var f *failure
		if !errors.As(err, &f) || (w.Header().Get("Retry-After") != "") != want || (len(f.GRPCStatus().Details()) > 0) != want {
			t.Errorf("%v: %v, %v", kind, w.Header(), f.GRPCStatus())
		}
	}
}

// TestUnknownResults checks the error of each reason why a result is unknown.
func TestUnknownResults(t *testing.T) {
	t.Parallel()
	failed := authz.ConditionError{Condition: "more", Tuple: rel.Key{Object: rel.Object{Type: "doc", ID: "1"}}, Err: errors.New("no number")}
	for _, c := range []struct {
		reasons *authz.Reasons
		want    string
	}{
		{nil, "OK "},
		{&authz.Reasons{}, "OK "},
		{&authz.Reasons{Cycle: true}, "OK "},
		{&authz.Reasons{Errors: []authz.ConditionError{failed}, Bound: authz.BoundDepth}, "InvalidArgument rule more on doc:1: no number"},
		{&authz.Reasons{Bound: authz.BoundDepth, Missing: []string{"n"}}, "InvalidArgument ERROR_CODE_DEPTH_NOT_ENOUGH"},
		{&authz.Reasons{Bound: "nodes", Missing: []string{"n"}}, "ResourceExhausted the evaluation reached the bound nodes"},
		{&authz.Reasons{Missing: []string{"n"}, Cycle: true}, "InvalidArgument missing context: n, cycle through exclusion"},
	} {
		if got := outcomeOf(unknownError(c.reasons)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.reasons, got, c.want)
		}
	}
	if got := outcomeOf(incompleteError("", 0, &authz.Reasons{Bound: "nodes"})); got != "OK " {
		t.Errorf("a whole list: %s", got)
	}
	if got := outcomeOf(translateError(context.Canceled)); got != "Canceled ERROR_CODE_CANCELLED" {
		t.Errorf("a canceled context: %s", got)
	}
}

// outcomeOf returns the code and the message of an error.
func outcomeOf(err error) string {
	var f *failure
	if !errors.As(err, &f) {
		return codes.OK.String() + " "
	}
	return f.code.String() + " " + f.message
}

// TestCollectIDs reads lists of several pages of the engine into one page.
func TestCollectIDs(t *testing.T) {
	t.Parallel()
	ids := make([]string, 2*listPage+1)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	// read returns at most most ids. The cursor is the number of the first one.
	read := func(most int) func(int, string) ([]string, string, error) {
		return func(limit int, cursor string) ([]string, string, error) {
			if limit < 1 || limit > listPage {
				t.Errorf("a page of %d ids is read", limit)
			}
			from := slices.Index(ids, cursor)
			to := min(from+min(limit, most), len(ids))
			if to == len(ids) {
				return ids[from:], "", nil
			}
			return slices.Clip(ids[from:to]), ids[to], nil
		}
	}
	for _, c := range []struct{ limit, most, got int }{
		{1, 1, 1}, {5, 2, 5}, {5, 100, 5}, {listPage, listPage, listPage}, {listPage + 1, listPage, listPage + 1}, {2*listPage + 1, listPage, 2*listPage + 1}, {3 * listPage, listPage, 2*listPage + 1},
	} {
		got, next, err := collectIDs(c.limit, "0", read(c.most))
		want := ""
		if c.got < len(ids) {
			want = ids[c.got]
		}
		if err != nil || !slices.Equal(got, ids[:c.got]) || next != want {
			t.Errorf("limit %d, pages of %d: %d ids, next %s, %v", c.limit, c.most, len(got), next, err)
		}
	}
	broken := errors.New("no list")
	if got, next, err := collectIDs(5, "0", func(int, string) ([]string, string, error) { return ids, "1", broken }); got != nil || next != "" || err != broken {
		t.Errorf("%d ids, %q, %v", len(got), next, err)
	}
}

// TestPlaces checks the place of errors of the compiler that the parser does not find
// before.
func TestPlaces(t *testing.T) {
	t.Parallel()
	s, err := language.Parse("entity user {}\nentity doc {\n  relation a @user\n  permission b = a\n}\nrule r(n integer) {\n  n > 1\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  schema.Error
		want string
	}{
		{schema.Error{Type: "doc", Relation: "b", Text: "x"}, "4:14: x"},
		{schema.Error{Type: "doc", Relation: "none", Text: "x"}, "2:8: x"},
		{schema.Error{Type: "none", Relation: "b", Text: "x"}, "1:1: x"},
		{schema.Error{Text: "x"}, "1:1: x"},
		{schema.Error{Condition: "r", Text: "x"}, "7:3: x"},
		{schema.Error{Condition: "r", Text: "ERROR: <input>:1:3: y\n more"}, "7:5: y"},
		{schema.Error{Condition: "r", Text: "ERROR: <input>:2:3: y\n more"}, "8:3: y"},
		{schema.Error{Condition: "r", Text: "ERROR: <input>:99999999999999999999:3: y"}, "7:3: y"},
		{schema.Error{Condition: "r", Text: "ERROR: <input>:1:99999999999999999999: y"}, "7:3: y"},
	} {
		if got := withPosition(s, &c.err); got.Error() != c.want || !errors.Is(got, &c.err) {
			t.Errorf("%+v: %v, want %s", c.err, got, c.want)
		}
	}
	if other := errors.New("other"); withPosition(s, other) != other {
		t.Error("another error is changed")
	}
}

// TestConsistency checks how fresh the data for a snap token must be.
func TestConsistency(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		token string
		exact bool
		want  authz.Consistency
	}{
		{"", false, authz.Acknowledged()}, {"", true, authz.Acknowledged()}, {noopToken, true, authz.Acknowledged()}, {noopToken, false, authz.Acknowledged()},
		{"o1.x", false, authz.AtLeast("o1.x")}, {"o1.x", true, authz.AtExactly("o1.x")},
	} {
		if got := (&service{opts: Options{ExactSnapTokens: c.exact}}).consistency(c.token); got != c.want {
			t.Errorf("%q, exact %t: %v, want %v", c.token, c.exact, got, c.want)
		}
	}
}

// TestBounds checks the values of the bounds and of the sizes of pages, on which
// clients rely.
func TestBounds(t *testing.T) {
	t.Parallel()
	got := []int{bulkItemsMax, writeMax, PageMax, tenantBytesMax, bundlesMax, bundleBytesMax, permissionsMax, tokenBytesMax,
		lookupPage, readPage, schemaPage, tenantPage, listPage, readMax, expandLevels, expandNodesMax, changesMax, bytesPerChange, heldChanges}
	if want := []int{100, 1000, 100_000, 64, 100, 64 << 10, 20, 256 << 10, 1000, 50, 50, 50, 10_000, 10_000, 50, 100_000, 1000, 1024, 16}; !slices.Equal(got, want) {
		t.Errorf("bounds %v, want %v", got, want)
	}
	for size, want := range map[uint32]int{0: 17, 1: 1, PageMax: PageMax, PageMax + 1: PageMax, 1<<32 - 1: PageMax} {
		if got := pageSize(size, 17); got != want {
			t.Errorf("page_size %d: %d, want %d", size, got, want)
		}
	}
}

// TestNames checks the characters and the lengths of names.
func TestNames(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if name := "a" + string([]byte{byte(c)}); validName(name) != letter {
			t.Errorf("%q: valid %t", name, !letter)
		}
	}
	for name, want := range map[string]bool{"": false, "a": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false} {
		if validName(name) != want {
			t.Errorf("%q: valid %t", name, !want)
		}
	}
}

// TestBundleNames checks the lengths of the names of bundles.
func TestBundleNames(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[int]bool{0: false, 1: true, 256: true, 257: false} {
		if err := checkBundle(&permifypb.DataBundle{Name: strings.Repeat("a", bytes)}); (err == nil) != want {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

// TestChanges checks what a watch reports for each kind of change, and that it ends
// when a change cannot be sent.
func TestChanges(t *testing.T) {
	t.Parallel()
	c := connect(t, watchSchema)
	store, err := c.engine.StoreByAlias(t.Context(), Name, "t1")
	if err != nil {
		t.Fatal(err)
	}
	tuple := rel.Tuple{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "2"}}
	on := rel.Attribute{Object: tuple.Object, Name: "on", Value: "true"}
	gone := errors.New("the client is gone")
	for kind, want := range map[storage.ChangeKind]string{
		storage.TupleAdd: "+doc:1#owner@user:2", storage.TupleRemove: "-doc:1#owner@user:2", storage.AttributeSet: "+doc:1$on", storage.AttributeRemove: "-doc:1$on", storage.DocumentPut: "",
	} {
		got := ""
		change := &storage.Change{Kind: kind, Tuple: tuple, Attribute: on}
		if err := addChange(t.Context(), store, 5, change, func(c *permifypb.DataChange) error { got += changeLine(c); return nil }); err != nil || got != want {
			t.Errorf("%v: %q, %v, want %q", kind, got, err, want)
		}
		if err := addChange(t.Context(), store, 5, change, func(*permifypb.DataChange) error { return gone }); want != "" && err != gone {
			t.Errorf("%v: %v", kind, err)
		}
	}
}

// TestListSchemasToken checks that a token after a version that does not exist is
// refused.
func TestListSchemasToken(t *testing.T) {
	t.Parallel()
	c := connect(t, watchSchema)
	token := (&position{last: "none"}).token(tokenKey("schemas", "t1"))
	_, err := c.schema.List(t.Context(), &permifypb.SchemaListRequest{TenantId: "t1", ContinuousToken: token})
	if status.Convert(err).Message() != "ERROR_CODE_INVALID_CONTINUOUS_TOKEN" {
		t.Error(err)
	}
}
