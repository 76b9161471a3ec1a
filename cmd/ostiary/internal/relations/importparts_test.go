package relations

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

// A write of large tuples to a server is sent in parts. Only the last part has the
// state, so that no tuple before it can be missing.
func TestImportInParts(t *testing.T) {
	t.Parallel()
	type part struct {
		Add       []json.RawMessage
		Documents []struct{ Key string }
		Importing bool
	}
	var parts []part
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p part
		json.NewDecoder(r.Body).Decode(&p)
		parts = append(parts, p)
		fmt.Fprint(w, "{}")
	}))
	defer target.Close()
	var tuples []rel.Tuple
	for i := range 5 {
		tuples = append(tuples, rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(i)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "1"},
			Condition: "c", Context: `{"x":"` + strings.Repeat("x", moveBytes/2) + `"}`})
	}
	c := client.New(target.URL, client.Options{})
	s := &moveTarget{server: &server{Client: c}, store: c.Store("01ARZ3NDEKTSV4RRFFQ69G5FAV")}
	if err := s.write(context.Background(), moveData{tuples: tuples}, "", &moveRecord{state: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	sizes := []string{}
	for _, p := range parts {
		sizes = append(sizes, fmt.Sprint(len(p.Add), " tuples, ", len(p.Documents), " states, importing ", p.Importing))
	}
	if got := strings.Join(sizes, "; "); got != "2 tuples, 0 states, importing false; 2 tuples, 0 states, importing false; 1 tuples, 1 states, importing true" {
		t.Errorf("sent %s", got)
	}
}
