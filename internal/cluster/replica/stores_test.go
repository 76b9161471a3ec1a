package replica_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestManyStoresShown writes to many stores at the same time, and deletes one of them. What
// the other node counts as shown is in all of its views.
func TestManyStoresShown(t *testing.T) {
	t.Parallel()
	const stores, rounds = 60, 5
	tables := memorylog.New()
	var nodes [2]*clustertest.Replica
	var engines [2]*ostiary.Engine
	for i := range nodes {
		nodes[i] = mustOpen(t, tables, inMemory())
		e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: nodes[i]})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		engines[i] = e
	}
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	var all [2][stores]*ostiary.Store
	tuple := func(round int) rel.Tuple {
		return rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprint(round)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
	}
	has := func(s *ostiary.Store, round int) (bool, error) {
		r, err := s.Check(t.Context(), authz.CheckRequest{Object: tuple(round).Object, Relation: "viewer", Subject: tuple(round).Subject, QueryOptions: authz.QueryOptions{Consistency: authz.MinimizeLatency()}})
		return r.Allowed(), err
	}
	for i := range stores {
		s, err := engines[0].CreateStore(t.Context(), ostiary.CreateStoreRequest{})
		if err == nil {
			_, _, err = s.WriteSchema(t.Context(), authz.SchemaSource{Model: &model})
		}
		if err != nil {
			t.Fatal(err)
		}
		all[0][i] = s
		if err := nodes[1].WaitShown(t.Context(), nodes[0].AppliedSequence()); err != nil {
			t.Fatal(err)
		}
		if all[1][i], err = engines[1].Store(t.Context(), s.ID()); err != nil {
			t.Fatal(err)
		}
		if _, err := has(all[1][i], 0); err != nil { // it is loaded
			t.Fatal(err)
		}
	}
	for round := range rounds {
		failed := make(chan error, stores)
		for i := range stores {
			go func() {
				if round == rounds-1 && i == 0 {
					failed <- engines[0].DeleteStore(t.Context(), all[0][i].ID())
					return
				}
				_, err := all[0][i].Write(t.Context(), authz.WriteRequest{Add: []rel.Tuple{tuple(round)}})
				failed <- err
			}()
		}
		for range stores {
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
		}
		if err := nodes[1].WaitShown(t.Context(), nodes[0].AppliedSequence()); err != nil {
			t.Fatal(err)
		}
		for i, s := range all[1] {
			shown, err := has(s, round)
			if round == rounds-1 && i == 0 {
				if !errors.Is(err, authz.ErrNoStore) {
					t.Errorf("a check in the deleted store: error %v", err)
				}
			} else if err != nil || !shown {
				t.Fatalf("round %d, store %d: shown %t, error %v", round, i, shown, err)
			}
		}
	}
}
