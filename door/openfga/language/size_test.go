package language

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// models are models as JSON that have every part of the protocol's message.
var models = []string{
	`{"type_definitions":[{"type":"user"}]}`, // a missing version is read as 1.1
	`{"type_definitions":[{"type":"user"},{"type":"doc","relations":{"a":{"this":{}},"b":{"computedUserset":{"relation":"a"}},"p":{"this":{}},` +
		`"c":{"tupleToUserset":{"tupleset":{"relation":"p"},"computedUserset":{"relation":"a"}}},"d":{"union":{"child":[{"this":{}},{"computedUserset":{"object":"","relation":"a"}}]}},` +
		`"e":{"intersection":{"child":[{"this":{}},{"computedUserset":{"relation":"a"}}]}},"f":{"difference":{"base":{"this":{}},"subtract":{"computedUserset":{"relation":"a"}}}}},` +
		`"metadata":{"module":"m","source_info":{"file":"f.fga"},"relations":{"a":{"directly_related_user_types":[{"type":"user"},{"type":"user","wildcard":{}},{"type":"doc","relation":"a"},{"type":"user","condition":"k"}],` +
		`"module":"n","source_info":{"file":"g.fga"}},"p":{"directly_related_user_types":[{"type":"doc"}]},"d":{"directly_related_user_types":[{"type":"user"}]},"e":{"directly_related_user_types":[{"type":"user"}]},"f":{"directly_related_user_types":[{"type":"user"}]}}}}],` +
		`"schema_version":"1.2","conditions":{"k":{"name":"k","expression":"x == 1 && y.size() > 0 && z['a'] == b && b","parameters":{"x":{"type_name":"TYPE_NAME_INT"},"y":{"type_name":"TYPE_NAME_LIST","generic_types":[{"type_name":"TYPE_NAME_STRING"}]},` +
		`"z":{"type_name":"TYPE_NAME_MAP","generic_types":[{"type_name":"TYPE_NAME_BOOL"}]},"b":{"type_name":"TYPE_NAME_BOOL"}},"metadata":{"module":"m","source_info":{"file":"c.fga"}}}}}`,
}

// TestModelBytes checks that the bound on a model's bytes counts those of its
// message: a model is accepted at the size of the message, and refused one below.
func TestModelBytes(t *testing.T) {
	t.Parallel()
	texts := models
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if m, _, err := ParseDSL(f.Data); err == nil && strings.HasSuffix(f.Name, ".fga") {
				text, err := FormatJSON(m)
				if err != nil {
					t.Fatal(err)
				}
				texts = append(texts, string(text))
			}
		}
	}
	compared := 0
	for _, text := range texts {
		var message openfgav1.AuthorizationModel
		if err := protojson.Unmarshal([]byte(text), &message); err != nil {
			t.Fatal(err)
		}
		message.Id = ""
		n := proto.Size(&message)
		if n == 0 {
			continue
		}
		for size, above := range map[int]bool{n: false, n - 1: true} {
			_, _, err := Bounds{ModelBytes: size}.ParseJSON([]byte(text))
			var e *Error
			reached := err != nil && strings.Contains(err.Error(), "bytes of model")
			if reached != above || reached && !errors.As(err, &e) || !above && err != nil {
				t.Errorf("%s\nhas %d bytes; with at most %d: %v", text, n, size, err)
			}
		}
		compared++
	}
	if compared < len(models) {
		t.Errorf("compared only %d models", compared)
	}
}
