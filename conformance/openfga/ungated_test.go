package openfga

import (
	"fmt"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"github.com/openfga/language/pkg/go/transformer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"github.com/openfga/openfga/assets"

	"github.com/ostiary/ostiary/conformance/openfga/client"
)

// world has the parts of a YAML world that TestCheckWorldsUngated reads.
type world struct {
	Name   string
	Stages []struct {
		Model           string
		Tuples          []*openfgav1.TupleKey
		CheckAssertions []struct {
			Tuple            *openfgav1.TupleKey
			ContextualTuples []*openfgav1.TupleKey
			Context          *structpb.Struct
			Expectation      bool
			ErrorCode        int
		}
	}
}

// TestCheckWorldsUngated runs the YAML worlds' checks without the test that lets
// OpenFGA skip models which its newer graph cannot hold, such as those with an
// exclusion inside a cycle.
func TestCheckWorldsUngated(t *testing.T) {
	c := library(t, nil)
	for _, file := range []string{"tests/consolidated_1_1_tests.yaml", "tests/abac_tests.yaml"} {
		text, err := assets.EmbedTests.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var worlds struct{ Tests []world }
		if err := yaml.Unmarshal(text, &worlds); err != nil {
			t.Fatal(err)
		}
		for i := range worlds.Tests {
			t.Run(worlds.Tests[i].Name, func(t *testing.T) { worlds.Tests[i].play(t, c) })
		}
	}
}

func (w *world) play(t *testing.T, c *client.Client) {
	store, err := c.CreateStore(t.Context(), &openfgav1.CreateStoreRequest{Name: w.Name})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range w.Stages {
		m, err := transformer.TransformDSLToProto(s.Model)
		if err != nil {
			t.Fatal(err)
		}
		model, err := c.WriteAuthorizationModel(t.Context(), &openfgav1.WriteAuthorizationModelRequest{
			StoreId: store.GetId(), SchemaVersion: m.GetSchemaVersion(), TypeDefinitions: m.GetTypeDefinitions(), Conditions: m.GetConditions(),
		})
		if err != nil {
			t.Fatal(err)
		}
		for rest := s.Tuples; len(rest) > 0; {
			n := min(len(rest), 100)
			_, err := c.Write(t.Context(), &openfgav1.WriteRequest{
				StoreId: store.GetId(), AuthorizationModelId: model.GetAuthorizationModelId(),
				Writes: &openfgav1.WriteRequestWrites{TupleKeys: rest[:n]},
			})
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		for j, a := range s.CheckAssertions {
			t.Run(fmt.Sprintf("stage_%d/assertion_%d", i, j), func(t *testing.T) {
				r, err := c.Check(t.Context(), &openfgav1.CheckRequest{
					StoreId: store.GetId(), AuthorizationModelId: model.GetAuthorizationModelId(), Context: a.Context,
					TupleKey: &openfgav1.CheckRequestTupleKey{
						User: a.Tuple.GetUser(), Relation: a.Tuple.GetRelation(), Object: a.Tuple.GetObject(),
					},
					ContextualTuples: &openfgav1.ContextualTupleKeys{TupleKeys: a.ContextualTuples},
				})
				if int(status.Code(err)) != a.ErrorCode || r.GetAllowed() != a.Expectation {
					t.Errorf("check %v: %v, %v, want %v and code %d\n%s\n%v", a.Tuple, r.GetAllowed(), err, a.Expectation, a.ErrorCode, s.Model, s.Tuples)
				}
			})
		}
	}
}
