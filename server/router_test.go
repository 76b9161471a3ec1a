package server

import (
	"net/http/httptest"
	"testing"

	"github.com/ostiary/ostiary/door"
)

// TestLongestPrefix finds the door of a path. The longest prefix wins, and of two
// equally long ones that with the fixed segment.
func TestLongestPrefix(t *testing.T) {
	t.Parallel()
	var doors []*servedDoor
	for name, prefix := range map[string]string{"fixed": "/v1/x", "any": "/{p}/x", "longer any": "/{p}/x/y", "longest": "/v1/x/{q}/z"} {
		doors = append(doors, &servedDoor{Door: &door.Door{Name: name, Prefixes: []string{prefix}}})
	}
	rt, err := newRouter(doors, false)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/v1/x": "fixed", "/v2/x": "any", "/v1/x/y": "longer any", "/v2/x/y": "longer any", "/v1/x/k": "fixed", "/v2/x/k": "any", "/v1/x/y/z": "longest",
		"/v1/x/k/z": "longest", "/v2/x/y/z": "longer any", "/v1/x/y/z/a": "longest", "/v1/x/y/k": "longer any", "/v1/x/": "fixed", "/v1": "", "/v1/": "", "//x": "", "/": "", "": "", "v1/x": "",
	} {
		got := ""
		if d := rt.findDoor(path); d != nil {
			got = d.Name
		}
		if got != want {
			t.Errorf("%s is served by %q, expected %q", path, got, want)
		}
	}
}

// TestNewIDs makes ids: 20 digits that are independent of each other.
func TestNewIDs(t *testing.T) {
	t.Parallel()
	const n = 1000
	var ids [n]string
	for i := range ids {
		if ids[i] = newID(new([20]byte)); len(ids[i]) != 20 || !validID(ids[i]) {
			t.Fatalf("%q", ids[i])
		}
	}
	for a := range 20 {
		seen := map[byte]bool{}
		for _, id := range ids {
			seen[id[a]] = true
		}
		if len(seen) != 32 {
			t.Errorf("position %d has %d digits, expected 32", a, len(seen))
		}
		for b := range a {
			same := 0
			for _, id := range ids {
				if id[a] == id[b] {
					same++
				}
			}
			if same > n/4 { // expected are n/32
				t.Errorf("positions %d and %d are equal in %d of %d ids", a, b, same, n)
			}
		}
	}
}

// TestNoDoors checks what a port without doors answers.
func TestNoDoors(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	(&router{}).notFound(w)
	if want := `{"error":{"code":"not_found","message":"this port has no doors"}}` + "\n"; w.Code != 404 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
