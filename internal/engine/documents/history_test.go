package documents_test

import (
	"errors"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// restorable is a driver whose data a test replaces, as an operator does who restores
// a backup under a running program.
type restorable struct{ storage.Driver }

// notesOf returns a driver in memory with a store whose log has one note in each entry.
// Equal arguments make equal logs.
func notesOf(t *testing.T, info storage.StoreInfo, keys ...string) storage.Driver {
	t.Helper()
	d, err := kv.New(memory.NewStore(), kv.Options{})
	if err == nil {
		err = d.CreateStore(t.Context(), info)
	}
	if err != nil {
		t.Fatal(err)
	}
	head := storage.Head{}
	for i, key := range keys {
		e := storage.Entry{Incarnation: info.Incarnation, Revision: head.Revision + 1, Previous: head.Hash, Writer: storage.WriterID{1},
			Sequence: uint64(i + 1), Changes: []storage.Change{{Kind: storage.DocumentPut, Document: storage.Document{Kind: "note", Key: key, Body: []byte("x")}}}}
		if head, err = d.Append(t.Context(), info.ID, head, []storage.Entry{e}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// TestAnotherHistory replaces the data below an engine. A replica never mixes two
// histories: if the engine finds that the log does not continue what was served, the
// replica fails, and if it cannot tell, because the log was trimmed, the replica reads
// all documents again.
func TestAnotherHistory(t *testing.T) {
	t.Parallel()
	id, err := storage.ParseStoreID("01HVMMBCMGZNT3SED4Z17ECXCA")
	if err != nil {
		t.Fatal(err)
	}
	info := storage.StoreInfo{ID: id, Incarnation: storage.Incarnation{1}}
	log := func(keys ...string) func() storage.Driver {
		return func() storage.Driver { return notesOf(t, info, keys...) }
	}
	trimmed := func(keys ...string) func() storage.Driver {
		return func() storage.Driver {
			d := notesOf(t, info, keys...)
			if err := d.Trim(t.Context(), id, storage.Revision(len(keys)), 0); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	for name, c := range map[string]struct {
		after func() storage.Driver
		kind  error
		want  string
	}{
		"went back":                 {log("a"), authz.ErrHistory, ""},
		"another entry":             {log("a", "c"), authz.ErrHistory, ""},
		"other and longer":          {log("a", "c", "d"), authz.ErrHistory, ""},
		"continues":                 {log("a", "b", "c"), nil, "a=x b=x c=x"},
		"continues, trimmed":        {trimmed("a", "b", "c", "d"), nil, "a=x b=x c=x d=x"},
		"other and longer, trimmed": {trimmed("e", "f", "g", "h"), nil, "e=x f=x g=x h=x"},
	} {
		for _, idle := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := &restorable{notesOf(t, info, "a", "b")}
				e := must(ostiary.Open(t.Context(), ostiary.Options{Driver: d}))(t)
				defer e.Close()
				r := documents.New(must(e.Store(t.Context(), id))(t), form())
				if have := newest(t, r).Value.String(); have != "a=x b=x" {
					t.Fatalf("the replica has %q", have)
				}
				if idle {
					e.DropIdle()
					e.DropIdle()
				}
				d.Driver = c.after()
				for range 2 {
					at, err := r.Wait(t.Context(), authz.FullyConsistent())
					if !errors.Is(err, c.kind) || c.kind == nil && err != nil {
						t.Fatalf("a read fails with %v, want %v", err, c.kind)
					}
					if err == nil && at.Value.String() != c.want {
						t.Fatalf("the replica has %q, want %q", at.Value, c.want)
					}
				}
				_, err := r.Change(t.Context(), increment)
				if !errors.Is(err, c.kind) || c.kind == nil && err != nil {
					t.Fatalf("a change fails with %v, want %v", err, c.kind)
				}
				if have := c.want + " n=x"; err == nil && newest(t, r).Value.String() != have {
					t.Errorf("after a change the replica has %q, want %q", newest(t, r).Value, have)
				}
			})
		}
	}
}
