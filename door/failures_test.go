package door_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/door/xacml"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/storage/memory"
)

// secret is the text of a driver that no response may have.
const secret = "dial tcp: password=hunter2"

// kinds are the kinds of the engine's errors, by their names in package ostiary.
var kinds = map[string]error{
	"ErrNoStore": authz.ErrNoStore, "ErrForbidden": authz.ErrForbidden, "ErrStoreExists": authz.ErrStoreExists, "ErrNoSchema": authz.ErrNoSchema,
	"ErrInvalidSchema": authz.ErrInvalidSchema, "ErrInvalidName": authz.ErrInvalidName, "ErrInvalidTuple": authz.ErrInvalidTuple,
	"ErrInvalidRequest": authz.ErrInvalidRequest, "ErrTupleExists": authz.ErrTupleExists, "ErrTupleMissing": authz.ErrTupleMissing,
	"ErrPrecondition": authz.ErrPrecondition, "ErrConflict": authz.ErrConflict, "ErrUncertain": authz.ErrUncertain,
	"ErrHistory": authz.ErrHistory, "ErrNoHolder": authz.ErrNoHolder, "ErrNoLease": authz.ErrNoLease,
	"ErrNoType": authz.ErrNoType, "ErrNoRelation": authz.ErrNoRelation, "ErrNoDocument": authz.ErrNoDocument,
	"ErrNoSecretKey": authz.ErrNoSecretKey, "ErrToken": authz.ErrToken, "ErrCursor": authz.ErrCursor, "ErrTooOld": authz.ErrTooOld,
	"ErrFuture": authz.ErrFuture, "ErrBound": authz.ErrBound, "ErrMemory": authz.ErrMemory, "ErrDisk": authz.ErrDisk,
	"ErrLoading": authz.ErrLoading, "ErrImporting": authz.ErrImporting, "ErrBusy": authz.ErrBusy, "ErrPending": authz.ErrPending,
	"ErrTransaction": authz.ErrTransaction, "ErrWatchBehind": authz.ErrWatchBehind, "ErrDamaged": authz.ErrDamaged,
	"ErrFormat": authz.ErrFormat, "ErrLocked": authz.ErrLocked, "ErrCanceled": authz.ErrCanceled, "ErrStorage": authz.ErrStorage,
	"ErrClosed": authz.ErrClosed,
}

// causeOf returns the cause of an error of a kind: a bound, the text of a driver, or
// nothing.
func causeOf(name string) error {
	switch {
	case name == "ErrBound":
		return &authz.BoundError{Name: "Depth", Max: 3, Got: 4}
	case slices.Contains(hidden, name):
		return fmt.Errorf("%w: %s", kinds[name], secret)
	}
	return nil
}

// hidden are the kinds whose cause is never sent.
var hidden = []string{"ErrUncertain", "ErrNoHolder", "ErrNoLease", "ErrHistory", "ErrNoSecretKey", "ErrTransaction", "ErrDamaged", "ErrFormat", "ErrLocked", "ErrStorage", "ErrClosed"}

// single returns the only door of a function that makes one.
func single[O any](make func(*ostiary.Engine, O) (*door.Door, error), o O) func(*ostiary.Engine) ([]*door.Door, error) {
	return func(e *ostiary.Engine) ([]*door.Door, error) {
		d, err := make(e, o)
		return []*door.Door{d}, err
	}
}

const jsonBody = "Content-Type: application/json\n\n"

// storeID is a store that no test has: the driver fails before it looks.
const storeID = "01HVMMBCMGZNT3SED4Z17ECXCA"

// walked are all doors, by their folder, and requests that need the store of each, over
// HTTP and gRPC. A folder may have several doors.
var walked = []struct {
	folder   string
	open     func(*ostiary.Engine) ([]*door.Door, error)
	requests [][]string
}{
	{"authzen", single(authzen.New, authzen.Options{}), [][]string{{
		"POST /authzen/acme/access/v1/evaluation\n" + jsonBody + `{"subject":{"type":"user","id":"anne"},"action":{"name":"read"},"resource":{"type":"document","id":"1"}}`}}},
	{"keystone", single(keystone.New, keystone.Options{}), [][]string{{"GET /v3/users\nX-Auth-Token: gAAAAA"}}},
	{"native", single(native.New, native.Options{}), [][]string{{"GET /ostiary/v1/stores/acme", "GET /ostiary/v1/stores/acme/watch",
		"POST /ostiary/v1/stores/acme/check\n" + jsonBody + "{}"}}},
	{"onap", func(e *ostiary.Engine) ([]*door.Door, error) { return onap.New(e, onap.Options{}) }, [][]string{
		{"POST /policy/pdpx/v1/decision\n" + jsonBody + `{"action":"configure"}`, "POST /policy/pdpx/v1/xacml\nContent-Type: application/xacml+json\n\n" + `{"Request":{"AccessSubject":{"Attribute":[{"AttributeId":"name","Value":"anne"}]}}}`},
		{"GET /policy/api/v1/policytypes"}, {"GET /policy/pap/v1/pdps"}}},
	{"openfga", single(openfga.New, openfga.Options{}), [][]string{{
		"GET /stores/" + storeID, "POST /stores/" + storeID + "/streamed-list-objects\n" + jsonBody + `{"type":"document","relation":"viewer","user":"user:anne"}`,
		"GRPC /openfga.v1.OpenFGAService/GetStore\n\n" + `{"store_id":"` + storeID + `"}`}}},
	{"permify", single(permify.New, permify.Options{}), [][]string{{
		"POST /v1/tenants/acme/schemas/list\n" + jsonBody + "{}", "POST /v1/tenants/acme/watch\n" + jsonBody + "{}",
		"GRPC /base.v1.Schema/List\n\n" + `{"tenant_id":"acme"}`}}},
	{"xacml", single(xacml.New, xacml.Options{}), [][]string{{"GET /stores/acme/xacml/v3/policies"}}},
}

// TestFailures makes the driver of the engine return an error of each kind to each door,
// and compares the responses with testdata/failures.txt. No response has the text of a
// driver.
func TestFailures(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, name := range declared(t) {
		kind := kinds[name]
		if kind == nil {
			t.Errorf("%s is a new kind of error: add it to kinds, and to the table of package door", name)
			continue
		}
		fmt.Fprintf(&out, "%s\n", name)
		for _, w := range walked {
			for i := range w.requests {
				for _, request := range w.requests[i] {
					fmt.Fprintf(&out, "\t%s\n", failedResponse(t, w.open, i, request, &authz.Error{Op: "test", Kind: kind, Err: causeOf(name)}))
				}
			}
		}
	}
	if strings.Contains(out.String(), secret) {
		t.Error("a response has the text of the driver")
	}
	golden.Equal(t, "testdata/failures.txt", out.String())
}

// failedResponse sends a request to door i of open, over a driver that fails with err,
// and returns the response in one line.
func failedResponse(t *testing.T, open func(*ostiary.Engine) ([]*door.Door, error), i int, request string, err error) string {
	driver := failing.New(memory.New())
	e, openErr := ostiary.Open(t.Context(), ostiary.Options{Driver: driver})
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer e.Close()
	doors, openErr := open(e)
	if openErr != nil {
		t.Fatal(openErr)
	}
	driver.Break(failing.Fault{Number: 1, Lasting: true, Err: err})
	status, header, body := doortest.Ask(t, doors[i], request)
	if _, failed := driver.Mend(); !failed {
		t.Errorf("%s: no operation failed", request)
	}
	if after := header.Get("Retry-After"); after != "" {
		status += ", retry after " + after + " s"
	}
	if status == "200" { // without a store the catalog is empty
		body = ""
	}
	// The protobuf library adds white space at random.
	if compact := new(bytes.Buffer); json.Compact(compact, []byte(body)) == nil {
		body = compact.String()
	}
	first, _, _ := strings.Cut(request, "\n")
	return fmt.Sprintf("%s %s: %s: %s", doors[i].Name, first, status, strings.TrimSpace(body))
}

// declared returns the names of the errors of package authz.
func declared(t *testing.T) (names []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "../authz/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].IsExported() {
			names = append(names, v.Names[0].Name)
		}
		return true
	})
	if len(names) != len(kinds) {
		t.Errorf("package authz has %d errors, expected the %d of kinds", len(names), len(kinds))
	}
	return names
}

// TestDescribe checks errors that have a cause besides their kind, and errors that are not
// of the engine.
func TestDescribe(t *testing.T) {
	t.Parallel()
	late := &door.Refusal{Reason: door.TimedOut, Bound: "RequestTimeout", Time: 3 * time.Second}
	var out strings.Builder
	for _, err := range []error{
		late, &authz.Error{Op: "check", Kind: authz.ErrCanceled, Err: late}, &authz.Error{Op: "check", Kind: authz.ErrLoading, Err: late},
		&door.Refusal{Reason: door.TooLarge, Bound: "BodyBytes", Limit: 7}, &door.Refusal{Reason: door.ShuttingDown},
		&authz.Error{Op: "check", Kind: authz.ErrCanceled, Err: context.DeadlineExceeded}, context.DeadlineExceeded, context.Canceled,
		fmt.Errorf("item 3: %w", &authz.Error{Op: "read", Kind: authz.ErrStorage, Err: errors.New(secret)}),
		fmt.Errorf("item 3: %w", &authz.Error{Op: "read", Kind: authz.ErrBound, Err: &authz.BoundError{Name: "Depth", Max: 3, Got: 4}}),
		&authz.Error{Op: "write", Kind: authz.ErrConflict}, fmt.Errorf("%w: line 3", jsonread.ErrSyntax), errors.New(secret),
	} {
		f := door.Describe(err)
		own := f.OfOwnStore()
		h := http.Header{}
		door.SetRetryAfter(h, f.Status)
		fmt.Fprintf(&out, "%d %s %s: %s", f.Status, f.Code, f.Kind, f.Text)
		if f.Bound != nil {
			fmt.Fprintf(&out, " (%s %d)", f.Bound.Name, f.Bound.Max)
		}
		fmt.Fprintf(&out, "; retry after %q; own store: %d %s: %s\n", h.Get("Retry-After"), own.Status, own.Code, own.Text)
	}
	golden.Equal(t, "testdata/described.txt", out.String())
}

// TestEveryDoorIsWalked checks that walked has each folder with a door, each door, and a
// call over gRPC of each door with services.
func TestEveryDoorIsWalked(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), "&door.Door{") {
			folders[filepath.Dir(file)] = true
		}
	}
	for _, w := range walked {
		if !folders[w.folder] {
			t.Errorf("%s is no folder of a door", w.folder)
		}
		delete(folders, w.folder)
		e, err := ostiary.Open(t.Context(), ostiary.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		doors, err := w.open(e)
		if err != nil || len(doors) != len(w.requests) {
			t.Errorf("%s has %d doors, expected %d: %v", w.folder, len(doors), len(w.requests), err)
			continue
		}
		for i, d := range doors {
			rpc := slices.ContainsFunc(w.requests[i], func(request string) bool { return strings.HasPrefix(request, "GRPC ") })
			if rpc != (len(d.Services) > 0) {
				t.Errorf("%s has %d gRPC services; is one called: %v", d.Name, len(d.Services), rpc)
			}
		}
	}
	for folder := range folders {
		t.Errorf("%s has a door that walked lacks", folder)
	}
}
