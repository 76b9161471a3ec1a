package failing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// plain hides the optional interfaces of a driver.
type plain struct{ storage.Driver }

// joiner implements storagetest.Transactor.
type joiner struct {
	*Driver
	data *memory.Store
}

func (j joiner) Transaction() (tx any, commit func() error) {
	b := j.data.Batch()
	return b, b.Commit
}

// TestPassesOn runs the suite of drivers on a Driver without a fault.
func TestPassesOn(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) storagetest.Opener {
		data := memory.NewStore()
		return func() (storage.Driver, error) {
			d, err := kv.New(data, kv.Options{})
			passing := New(d)
			passing.Notices = true
			return joiner{passing, data}, err
		}
	})
}

// TestPlainDriver calls the optional methods on a driver that lacks them.
func TestPlainDriver(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := New(plain{prepared().Driver})
	l := *log
	var err error
	if l.Head, err = d.Head(ctx, l.ID); err != nil {
		t.Fatal(err)
	}
	entries := []storage.Entry{l.Entry(l.Head)}
	if _, err := d.AppendTo(ctx, nil, l.ID, l.Head, entries); !errors.Is(err, storage.ErrTransaction) {
		t.Errorf("AppendTo: error %v, expected %v", err, storage.ErrTransaction)
	}
}

var log = storagetest.NewLog(1)

const tupleText = "document:1#owner@user:anne"

// created is the store of a prepared driver.
var created = storage.StoreInfo{ID: log.ID, Incarnation: log.Incarnation, Name: "a", Aliases: map[string]string{"door": "a"}, Created: 1}

// prepared returns a driver whose store has a tuple, an attribute, a document and a
// secret at revision 1.
func prepared() *Driver {
	ctx := context.Background()
	d := New(memory.New())
	tuple, err := rel.Parse(tupleText)
	l := *log
	if err = errors.Join(err, d.CreateStore(ctx, created), l.Append(ctx, d,
		storage.Change{Kind: storage.TupleAdd, Tuple: tuple},
		storage.Change{Kind: storage.AttributeSet, Attribute: rel.Attribute{Object: tuple.Object, Name: "size", Value: "1"}},
		storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: "k", Key: "d", Secondary: []string{"s"}, Body: []byte("body")}},
		storage.Change{Kind: storage.SecretPut, Document: storage.Document{Kind: "k", Key: "d", Body: []byte("hidden")}})); err != nil {
		panic(err) // the driver in memory does not fail
	}
	return d
}

// count reads a sequence to its end and returns the number of its elements.
func count[T any](seq func(func(T, error) bool)) (n int, err error) {
	for _, err := range seq {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// calls are one call for each operation that reads, and one for each that writes.
func calls(d *Driver) map[string]func() (string, error) {
	ctx, id := context.Background(), log.ID
	all := map[string]func() (string, error){}
	add := func(name string, f func() (any, error)) {
		all[name] = func() (string, error) { v, err := f(); return fmt.Sprint(v), err }
	}
	write := func(name string, f func() error) { add(name, func() (any, error) { return name, f() }) }
	info := storage.StoreInfo{ID: log.ID, Incarnation: log.Incarnation, Name: "b", Created: 1}
	add("format", func() (any, error) { return d.Format(ctx) })
	write("create", func() error {
		return d.CreateStore(ctx, storage.StoreInfo{ID: storage.StoreID{1}, Incarnation: log.Incarnation})
	})
	write("update", func() error { return d.UpdateStore(ctx, created, info) })
	write("delete", func() error { return d.DeleteStore(ctx, id) })
	add("store", func() (any, error) { i, err := d.Store(ctx, id); return i.Name, err })
	add("alias", func() (any, error) { i, err := d.StoreByAlias(ctx, "door", "a"); return i.Name, err })
	add("stores", func() (any, error) { return count(d.Stores(ctx, storage.StoreID{})) })
	add("stores by alias", func() (any, error) { return count(d.StoresByAlias(ctx, "door", "")) })
	add("stores by name", func() (any, error) { return count(d.StoresByName(ctx, created.Name, storage.StoreID{})) })
	add("head", func() (any, error) { h, err := d.Head(ctx, id); return h.Revision, err })
	add("entries", func() (any, error) { return count(d.Entries(ctx, id, 0)) })
	add("load", func() (any, error) { return load(d) })
	add("rows", func() (any, error) {
		tuple, _ := rel.Parse(tupleText)
		rows, err := d.Rows(ctx, id, []rel.Key{tuple.Key()})
		return len(rows), err
	})
	add("document", func() (any, error) { v, err := d.Document(ctx, id, "k", "d"); return string(v.Body), err })
	add("documents", func() (any, error) { return count(d.DocumentsBy(ctx, id, "k", "s")) })
	add("secret", func() (any, error) { v, err := d.Secret(ctx, id, "k", "d"); return string(v.Body), err })
	write("trim", func() error { return d.Trim(ctx, id, 1, 1) })
	add("oldest", func() (any, error) { a, b, err := d.Oldest(ctx, id); return fmt.Sprint(a, b), err })
	return all
}

// load counts the rows of the state.
func load(d *Driver) (text string, err error) {
	st, err := d.Load(context.Background(), log.ID, storage.LoadOptions{})
	if err != nil {
		return "", err
	}
	tuples, err1 := count(st.Tuples)
	attributes, err2 := count(st.Attributes)
	documents, err3 := count(st.Documents)
	bodies, err4 := count(st.Bodies("k"))
	return fmt.Sprint(tuples, attributes, documents, bodies), errors.Join(err1, err2, err3, err4, st.Close())
}

// mistakes are what a caller of a driver can do wrong. each must find them, and find
// nothing in a call without a mistake.
var mistakes = []struct {
	name string
	call func(call func() (string, error)) func() (string, error)
}{
	{"no mistake", func(f func() (string, error)) func() (string, error) { return f }},
	{"the error is dropped", func(f func() (string, error)) func() (string, error) {
		return func() (string, error) { v, _ := f(); return v, nil }
	}},
	{"the error becomes an empty result", func(f func() (string, error)) func() (string, error) {
		return func() (string, error) {
			v, err := f()
			if err != nil {
				return "", nil
			}
			return v, nil
		}
	}},
	{"no call after an error", func(f func() (string, error)) func() (string, error) {
		var last error
		return func() (string, error) {
			if last != nil {
				return "", last
			}
			v, err := f()
			last = err
			return v, err
		}
	}},
}

// stores returns the names and the heads of the stores.
func stores(d *Driver) (string, error) {
	text := ""
	for info, err := range d.Stores(context.Background(), storage.StoreID{}) {
		if err != nil {
			return "", err
		}
		text += info.ID.String() + " " + info.Name + "\n"
	}
	return text, nil
}

// TestEach prints what each reports about calls with mistakes.
func TestEach(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	report := func(title string, start func() trial) {
		problems, hits := each(start)
		fmt.Fprintf(&out, "## %s\nfailed: %s\n", title, strings.Join(hits, ", "))
		for _, p := range problems {
			fmt.Fprintf(&out, "- %s\n", strings.ReplaceAll(strings.TrimSpace(p), "\n", "\n  "))
		}
		out.WriteByte('\n')
	}
	for _, m := range mistakes {
		for _, name := range []string{"entries", "load", "create", "oldest"} {
			report(m.name+": "+name, func() trial {
				d := prepared()
				return trial{Scenario{Call: m.call(calls(d)[name]), State: func() (string, error) { return stores(d) }}, d}
			})
		}
	}
	for name := range calls(prepared()) {
		start := func() trial { d := prepared(); return trial{Scenario{Call: calls(d)[name]}, d} }
		if problems, hits := each(start); len(problems) > 0 || len(hits) == 0 {
			t.Errorf("%s: %d kinds of operations failed; %s", name, len(hits), strings.Join(problems, "\n"))
		}
	}
	special(report)
	golden.Equal(t, "testdata/each.txt", out.String())
}

// special reports about calls that use the other fields of a Scenario, and about calls
// that cannot be checked.
func special(report func(string, func() trial)) {
	ctx := context.Background()
	of := func(f func(d *Driver) Scenario) func() trial {
		return func() trial { d := prepared(); return trial{f(d), d} }
	}
	report("an optional operation", of(func(d *Driver) Scenario {
		return Scenario{Optional: []Operation{Head}, Call: func() (string, error) { _, _ = d.Head(ctx, log.ID); return "done", nil }}
	}))
	report("another error", of(func(d *Driver) Scenario {
		return Scenario{Err: storage.ErrDamaged, Call: func() (string, error) {
			_, err := d.Head(ctx, log.ID)
			if errors.Is(err, storage.ErrDamaged) {
				return "damaged", nil
			}
			return "whole", err
		}}
	}))
	two := func(d *Driver) Scenario {
		l := *log
		l.Head, _ = d.Head(ctx, log.ID)
		return Scenario{
			Call: func() (string, error) {
				l := l
				return "", errors.Join(l.Append(ctx, d), l.Append(ctx, d))
			},
			State: func() (string, error) { h, err := d.Head(ctx, log.ID); return fmt.Sprint(h.Revision), err },
		}
	}
	report("two changes", of(two))
	report("two changes, in steps", of(func(d *Driver) Scenario { s := two(d); s.InSteps = true; return s }))
	report("a state outside of the storage", of(func(d *Driver) Scenario {
		n := 0
		return Scenario{
			Call:  func() (string, error) { n++; _, err := d.Head(ctx, log.ID); return "", err },
			State: func() (string, error) { return fmt.Sprint(n), nil },
		}
	}))
	report("a change that is taken back in memory", of(func(d *Driver) Scenario {
		name := "a"
		return Scenario{
			Call: func() (string, error) {
				err := d.UpdateStore(ctx, created, storage.StoreInfo{ID: log.ID, Incarnation: log.Incarnation, Name: "b"})
				if name = "b"; err != nil {
					name = "lost"
				}
				return "", err
			},
			State: func() (string, error) { return name, nil },
		}
	}))
	report("no operation", of(func(*Driver) Scenario { return Scenario{Call: func() (string, error) { return "", nil }} }))
	report("a call that always fails", of(func(*Driver) Scenario {
		return Scenario{Call: func() (string, error) { return "", errors.New("always") }}
	}))
	report("a state that always fails", of(func(*Driver) Scenario {
		return Scenario{State: func() (string, error) { return "", errors.New("always") }}
	}))
	report("too many operations", of(func(d *Driver) Scenario {
		return Scenario{Call: func() (string, error) {
			for range operationsMax {
				if _, err := d.Head(ctx, log.ID); err != nil {
					return "", err
				}
			}
			return "", nil
		}}
	}))
}

// TestCounts checks what Count, Wrote and Mend return.
func TestCounts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	d := prepared()
	d.Break(Fault{Number: 2, Only: []Operation{Head, UpdateStore}, After: true})
	info := storage.StoreInfo{ID: log.ID, Incarnation: log.Incarnation, Name: "b"}
	_, first := d.Head(ctx, log.ID)
	_, other := d.Store(ctx, log.ID)
	wrote := d.Wrote()
	second := d.UpdateStore(ctx, created, info)
	if first != nil || other != nil || wrote || !errors.Is(second, ErrInjected) || !d.Wrote() || d.Count() != 2 {
		t.Errorf("errors %v, %v, %v; changes %v then %v, count %d", first, other, second, wrote, d.Wrote(), d.Count())
	}
	if o, ok := d.Mend(); o != UpdateStore || !ok {
		t.Errorf("Mend returned %q, %v", o, ok)
	}
	if got, err := d.Store(ctx, log.ID); err != nil || got.Name != "b" {
		t.Errorf("the change has no effect: %q, %v", got.Name, err)
	}
	if err := d.UpdateStore(ctx, info, info); err != nil {
		t.Errorf("after Mend: %v", err)
	}
	d.Break(Fault{Number: 1, Only: []Operation{Close}})
	if err := d.Close(); !errors.Is(err, ErrInjected) {
		t.Errorf("Close: %v", err)
	}
	if _, err := d.Driver.Head(ctx, log.ID); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("a Close that fails did not close the driver: %v", err)
	}
}

// TestUnchanged makes an operation fail only if no data was changed before it.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	ctx, id := context.Background(), log.ID
	for _, lasting := range []bool{false, true} {
		d := prepared()
		fault := Fault{Number: 2, Lasting: lasting, Unchanged: true}
		d.Break(fault)
		_, first := d.Head(ctx, id)
		_, second := d.Head(ctx, id)
		if hit, _ := d.Mend(); first != nil || !errors.Is(second, ErrInjected) || hit != Head {
			t.Errorf("nothing changed: errors %v and %v of %s", first, second, hit)
		}
		d.Break(fault)
		first = d.UpdateStore(ctx, created, storage.StoreInfo{ID: id, Incarnation: log.Incarnation, Name: "b", Created: 1})
		_, second = d.Head(ctx, id)
		if hit, _ := d.Mend(); first != nil || second != nil || hit != "" {
			t.Errorf("after a change: errors %v and %v of %s", first, second, hit)
		}
	}
}
