package serve

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/memory"
)

// sdkRepeats is how often OpenFGA's SDKs for Go and JavaScript repeat a request on their
// own, if the status is 429, or 500 or more except 501.
const sdkRepeats = 3

// TestUncertainWrite makes the storage fail during a write of OpenFGA's API, before or
// after the write is in the log, and until the client has repeated it once, as OpenFGA's
// SDKs do. The client gets a success, also if the tuple "already exists" by its own
// first request, and the log has the write once.
func TestUncertainWrite(t *testing.T) {
	t.Parallel()
	const write = `{"writes":{"tuple_keys":[{"user":"user:anne","relation":"viewer","object":"document:1"}]}}`
	const remove = `{"deletes":{"tuple_keys":[{"user":"user:anne","relation":"viewer","object":"document:1"}]}}`
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprint("made=", made), func(t *testing.T) {
			t.Parallel()
			s := startShaky(t)
			for i, body := range []string{write, remove} {
				s.driver.Break(failing.Fault{Number: 1, Lasting: true, After: made, Only: []failing.Operation{failing.Append, failing.Head, failing.Entries}})
				if statuses, text := s.send(body); !slices.Equal(statuses, []int{500, 500, 200}) {
					t.Fatalf("the answers to the repeated request %s are %d %s, want 500 twice and then 200", body, statuses, text)
				}
				if n := s.entries() - s.base; n != i+1 {
					t.Errorf("the log has %d writes, want %d", n, i+1)
				}
				// A request that does not repeat an uncertain one is refused.
				if statuses, text := s.send(body); !slices.Equal(statuses, []int{400}) || !strings.Contains(text, "write_failed_due_to_invalid_input") {
					t.Errorf("the answers to another request %s are %d %s, want one 400", body, statuses, text)
				}
			}
		})
	}
}

// shaky is a server of OpenFGA's API over a storage that a test makes fail.
type shaky struct {
	*testing.T
	driver *failing.Driver
	store  *ostiary.Store
	url    string
	base   int // entries before the writes
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
	srv, err := server.New(server.Options{HTTP: "127.0.0.1:0", Doors: []*door.Door{d}, Log: slog.New(slog.DiscardHandler), DrainTime: -1})
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
	s.url, s.base = "http://"+srv.Addresses()[0].Addr.String()+"/stores/"+s.store.ID().String()+"/write", s.entries()
	return s
}

// send sends a write as an SDK does. After the second failure, the storage works again.
func (s *shaky) send(body string) (statuses []int, text string) {
	s.Helper()
	for range 1 + sdkRepeats {
		response, err := http.Post(s.url, "application/json", strings.NewReader(body))
		if err != nil {
			s.Fatal(err)
		}
		b, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			s.Fatal(err)
		}
		statuses, text = append(statuses, response.StatusCode), string(b)
		if response.StatusCode != http.StatusTooManyRequests && (response.StatusCode < 500 || response.StatusCode == http.StatusNotImplemented) {
			break
		}
		if len(statuses) == 2 {
			s.driver.Mend()
		}
	}
	return statuses, text
}

// entries returns the number of entries of the store.
func (s *shaky) entries() (n int) {
	s.Helper()
	for _, err := range s.driver.Driver.Entries(s.Context(), s.store.ID(), 1) {
		if err != nil {
			s.Fatal(err)
		}
		n++
	}
	return n
}
