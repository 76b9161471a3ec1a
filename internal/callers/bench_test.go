package callers

import (
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
)

// BenchmarkRequest is what a key of the system store adds to a request: it is found by its
// secret, and asked for its door and for one store. The alternative is a request without
// keys, which does none of this.
func BenchmarkRequest(b *testing.B) {
	e, err := ostiary.Open(b.Context(), ostiary.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	r := New(e, Options{})
	s, err := e.CreateStore(b.Context(), ostiary.CreateStoreRequest{Name: "team-a"})
	if err != nil {
		b.Fatal(err)
	}
	made, err := r.Create(b.Context(), NewKey{Name: "k", Stores: []string{"team-*"}, Rights: []string{"read"}})
	if err != nil {
		b.Fatal(err)
	}
	info := s.Info()
	b.ReportAllocs()
	for b.Loop() {
		c, err := r.Secret(b.Context(), made.Secret)
		if err == nil {
			err = c.Opens(b.Context(), "native")
		}
		if err == nil {
			err = c.Allow(b.Context(), authz.RightRead, info)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
