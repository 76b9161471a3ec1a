package served

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openfga/go-sdk/client"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/schema"
	ostiaryserver "github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestUncertainWrite makes the storage fail during a write of the official Go SDK,
// before or after the write is in the log, and until the SDK has repeated it once. The
// SDK repeats a 500 on its own. The call succeeds, and the log has the write once.
func TestUncertainWrite(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprint("made=", made), func(t *testing.T) {
			t.Parallel()
			s := startShaky(t)
			key := tuple("user:anne", "viewer", "document:1")
			s.shake(made)
			if _, err := s.sdk.WriteTuples(t.Context()).Body(client.ClientWriteTuplesBody{key}).Execute(); err != nil {
				t.Fatalf("a write that is repeated fails with %v", err)
			}
			s.want(made, 1)
			if _, err := s.sdk.WriteTuples(t.Context()).Body(client.ClientWriteTuplesBody{key}).Execute(); err == nil {
				t.Error("the tuple exists, but another write of it succeeds")
			}
			s.shake(made)
			gone := client.ClientTupleKeyWithoutCondition{User: key.User, Relation: key.Relation, Object: key.Object}
			if _, err := s.sdk.DeleteTuples(t.Context()).Body(client.ClientDeleteTuplesBody{gone}).Execute(); err != nil {
				t.Fatalf("a deletion that is repeated fails with %v", err)
			}
			s.want(made, 2)
		})
	}
}

// shaky is a server over a storage that a test makes fail, and a client.
type shaky struct {
	*testing.T
	driver *failing.Driver
	store  *ostiary.Store
	sdk    *client.OpenFgaClient
	base   int // entries before the writes

	mu       sync.Mutex
	statuses []int // of the writes since shake
}

func startShaky(t *testing.T) *shaky {
	t.Helper()
	s := &shaky{T: t, driver: failing.New(memory.New())}
	engine, err := ostiary.Open(t.Context(), ostiary.Options{Driver: s.driver})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	d, err := openfga.New(engine, openfga.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := ostiaryserver.New(ostiaryserver.Options{HTTP: "127.0.0.1:0", Doors: []*door.Door{d}, Log: slog.New(slog.DiscardHandler), DrainTime: -1})
	if err == nil {
		err = srv.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	if s.store, err = engine.CreateStore(t.Context(), ostiary.CreateStoreRequest{}); err != nil {
		t.Fatal(err)
	}
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "document", Relations: []schema.RelationDef{viewer}}}}
	if _, _, err := s.store.WriteSchema(t.Context(), authz.SchemaSource{Model: &model}); err != nil {
		t.Fatal(err)
	}
	s.base = s.entries()
	s.sdk, err = client.NewSdkClient(&client.ClientConfiguration{ApiUrl: "http://" + srv.Addresses()[0].Addr.String(),
		StoreId: s.store.ID().String(), HTTPClient: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shake makes the storage fail from the next append on, which takes effect if made is
// true.
func (s *shaky) shake(made bool) {
	s.mu.Lock()
	s.statuses = nil
	s.mu.Unlock()
	s.driver.Break(failing.Fault{Number: 1, Lasting: true, After: made, Only: []failing.Operation{failing.Append, failing.Head, failing.Entries}})
}

// RoundTrip sends a request of the SDK. After the second write has failed, the storage
// works again.
func (s *shaky) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/write") {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.statuses = append(s.statuses, response.StatusCode); len(s.statuses) == 2 {
			s.driver.Mend()
		}
	}
	return response, err
}

// want requires that the SDK has sent the write three times, and that the log has a
// number of writes.
func (s *shaky) want(made bool, writes int) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.statuses, []int{500, 500, 200}) {
		s.Errorf("the statuses are %d, want 500 twice and then 200", s.statuses)
	}
	if have := s.entries() - s.base; have != writes {
		s.Errorf("the log has %d writes, want %d (made: %v)", have, writes, made)
	}
	check, err := s.sdk.Check(s.Context()).Body(client.ClientCheckRequest{User: "user:anne", Relation: "viewer", Object: "document:1"}).Execute()
	if err != nil || check.GetAllowed() != (writes == 1) {
		s.Errorf("the check answers %v, error %v; want %v", check, err, writes == 1)
	}
}

// entries returns the number of entries of the store.
func (s *shaky) entries() (n int) {
	s.Helper()
	for _, err := range s.driver.Driver.Entries(context.Background(), s.store.ID(), 1) {
		if err != nil {
			s.Fatal(err)
		}
		n++
	}
	return n
}
