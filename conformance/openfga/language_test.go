package openfga

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/openfga/language/pkg/go/transformer"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/openfga/openfga/assets"

	"github.com/ostiary/ostiary/door/openfga/language"
)

// dslModels returns the models of the YAML worlds.
func dslModels(t *testing.T) (out []string) {
	t.Helper()
	for _, file := range []string{"tests/consolidated_1_1_tests.yaml", "tests/abac_tests.yaml"} {
		text, err := assets.EmbedTests.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var worlds struct{ Tests []world }
		if err := yaml.Unmarshal(text, &worlds); err != nil {
			t.Fatal(err)
		}
		for _, w := range worlds.Tests {
			for _, s := range w.Stages {
				out = append(out, s.Model)
			}
		}
	}
	return out
}

// parseOriginal reads a model with OpenFGA's own parser, and returns its canonical
// JSON. ok is false if it refuses the text.
func parseOriginal(text string) (canonical []byte, ok bool) {
	defer func() { _ = recover() }() // it panics on some broken texts
	m, err := transformer.TransformDSLToProto(text)
	if err != nil || m.GetSchemaVersion() == "" {
		return nil, false
	}
	raw, err := protojson.Marshal(m)
	if err != nil {
		return nil, false
	}
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// TestDSL compares how package language and OpenFGA's own parser read the worlds'
// models, whole and with a random part cut out or doubled.
func TestDSL(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	accepted, refused := 0, 0
	for _, model := range dslModels(t) {
		texts := []string{model}
		for range 10 {
			from := rng.IntN(len(model))
			to := min(len(model), from+1+rng.IntN(12))
			texts = append(texts, model[:from]+model[to:], model[:to]+model[from:])
		}
		for _, text := range texts {
			theirs, ok := parseOriginal(text)
			_, ours, err := language.ParseDSL([]byte(text))
			if syntax := err != nil && strings.Contains(err.Error(), language.ErrSyntax.Error()); syntax == ok {
				t.Errorf("%v, but OpenFGA's parser accepts it: %v\n%s", err, ok, text)
			}
			if err != nil {
				refused++
				continue
			}
			accepted++
			if !bytes.Equal(ours, theirs) {
				t.Errorf("%s\nread as\n%s\nby OpenFGA's parser as\n%s", text, ours, theirs)
			}
			compareFormat(t, ours)
		}
	}
	if t.Logf("%d texts accepted, %d refused", accepted, refused); accepted < 300 || refused < 300 {
		t.Error("too few to prove much")
	}
}

// compareFormat compares the DSL that both print of a model. The model is first read
// from JSON, which drops repeated restrictions and blanks around expressions.
func compareFormat(t *testing.T, text []byte) {
	t.Helper()
	m, _, err := language.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := language.FormatDSL(m)
	if err != nil {
		ours = fmt.Sprint("error: ", err)
	}
	if text, err = language.FormatJSON(m); err != nil {
		t.Fatal(err)
	}
	theirs, err := transformer.TransformJSONStringToDSL(string(text))
	if err != nil {
		t.Errorf("%s\nprinted as\n%s\nby OpenFGA's printer: %v", text, ours, err)
	} else if *theirs != ours {
		t.Errorf("%s\nprinted as\n%s\nby OpenFGA's printer as\n%s", text, ours, *theirs)
	}
}
