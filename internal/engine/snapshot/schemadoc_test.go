package snapshot

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage/memory"
)

// modelOf returns a model with that many relations.
func modelOf(relations int) *schema.Model {
	t := schema.TypeDef{Name: "doc"}
	for i := range relations {
		t.Relations = append(t.Relations, schema.RelationDef{Name: "r" + strconv.Itoa(i), Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "doc"}}})
	}
	return &schema.Model{Types: []schema.TypeDef{t}}
}

// TestSchemaCacheBytes puts schemas into a cache that has room for two of them. The
// one that was used last stays, and one that is larger than the cache is not kept.
func TestSchemaCacheBytes(t *testing.T) {
	t.Parallel()
	small, err := schema.Compile(modelOf(10), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := schemaCache{max: 100, bytesMax: 2 * small.Bytes()}
	key := func(id string) schemaKey { return schemaKey{id: id} }
	expect := func(when string, want map[string]bool) {
		t.Helper()
		n := 0
		for id, in := range want {
			if got := c.at[key(id)] != nil; got != in {
				t.Errorf("%s: %s: %v", when, id, got)
			}
			if in {
				n++
			}
		}
		if c.bytes != n*small.Bytes() || c.order.Len() != n {
			t.Errorf("%s: %d bytes and %d schemas, expected %d schemas", when, c.bytes, c.order.Len(), n)
		}
	}
	c.put(key("a"), small)
	c.put(key("b"), small)
	c.get(key("a"))
	expect("two", map[string]bool{"a": true, "b": true})
	c.put(key("c"), small)
	expect("three", map[string]bool{"a": true, "b": false, "c": true})
	large, err := schema.Compile(modelOf(100), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.put(key("large"), large)
	expect("large", map[string]bool{"a": false, "c": false, "large": false})
	c.max = 1
	c.put(key("a"), small)
	c.put(key("b"), small)
	expect("one", map[string]bool{"a": false, "b": true})
}

// TestCompilations lets a schema wait while as many others as allowed are compiled,
// until its context ends. Then it compiles when the others have ended.
func TestCompilations(t *testing.T) {
	t.Parallel()
	r := NewRuntime(Config{Driver: memory.New(), Bounds: errs.WithDefaults(authz.Bounds{Compilations: 2}), Clock: time.Now})
	defer r.Close()
	started, end := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	for range 2 {
		go func() {
			done <- r.Compilation(t.Context(), 1, func() error {
				started <- struct{}{}
				<-end
				return nil
			})
		}()
		<-started
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 30 { // without the bound, about every second one runs
		err := r.Compilation(ctx, 1, func() error {
			t.Error("a third compilation runs")
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("while two are compiled: %v", err)
		}
	}
	close(end)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, err := r.PrepareSchema(t.Context(), &authz.SchemaSource{Model: modelOf(1)}); err != nil {
		t.Errorf("after they have ended: %v", err)
	}
}

// TestCompilationMemory lets a question hold the memory that a compilation needs. The
// compilation fails at its deadline with the name of the bound, and succeeds when the
// memory is free.
func TestCompilationMemory(t *testing.T) {
	t.Parallel()
	r := NewRuntime(Config{Driver: memory.New(), Bounds: errs.WithDefaults(authz.Bounds{QuestionsMemory: 1 << 20}), Clock: time.Now})
	defer r.Close()
	release, ok := r.QuestionsMemory.Take(t.Context(), 1<<20)
	if !ok {
		t.Fatal("the budget is not free")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	_, err := r.PrepareSchema(ctx, &authz.SchemaSource{Model: modelOf(1000)})
	if !errors.Is(err, authz.ErrBound) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without memory: %v", err)
	}
	release()
	if _, err := r.PrepareSchema(t.Context(), &authz.SchemaSource{Model: modelOf(1000)}); err != nil {
		t.Errorf("with memory: %v", err)
	}
	if release, ok := r.QuestionsMemory.Take(t.Context(), 1<<20); !ok {
		t.Error("a compilation kept memory of the budget")
	} else {
		release()
	}
}
