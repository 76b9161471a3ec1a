package language

import (
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/doortest"
)

// TestVariants reads variants of a model in its JSON form, in which a member is
// missing, unknown, doubled or has another value. The outcomes are in
// testdata/variants.txt.
func TestVariants(t *testing.T) {
	t.Parallel()
	doortest.Variants{File: "testdata/variants.txt", Requests: [][2]string{{"JSON", `{"id":"","schema_version":"1.2","type_definitions":[{"type":"user"},
		{"type":"doc","relations":{
			"a":{"this":{}},
			"b":{"union":{"child":[{"this":{}},{"computedUserset":{"object":"","relation":"a"}}]}},
			"c":{"intersection":{"child":[{"computed_userset":{"relation":"a"}},{"tuple_to_userset":{"tupleset":{"object":"","relation":"p"},"computed_userset":{"object":"","relation":"a"}}}]}},
			"d":{"difference":{"base":{"computedUserset":{"relation":"a"}},"subtract":{"tupleToUserset":{"tupleset":{"relation":"p"},"computedUserset":{"relation":"a"}}}}},
			"p":{"this":{}}},
		 "metadata":{"relations":{
			"a":{"directly_related_user_types":[{"type":"user"},{"type":"user","wildcard":{}},{"type":"doc","relation":"a"},{"type":"user","condition":"k"}],"module":"m","source_info":{"file":"m.fga"}},
			"b":{"directly_related_user_types":[{"type":"user"}]},"p":{"directly_related_user_types":[{"type":"doc"}]}},
			"module":"m","source_info":{"file":"m.fga"}}}],
		"conditions":{"k":{"name":"k","expression":"x < 1 && l.size() == 0","parameters":{"x":{"type_name":"TYPE_NAME_INT"},"l":{"type_name":"TYPE_NAME_LIST","generic_types":[{"type_name":"TYPE_NAME_STRING"}]}},"metadata":{"module":"m","source_info":{"file":"m.fga"}}}}}`}},
		Open: func(*testing.T, string) func([]byte) string {
			return func(text []byte) string {
				m, _, err := ParseJSON(text)
				if err != nil {
					return err.Error()
				}
				dsl, err := FormatDSL(m)
				if err != nil {
					return "accepted, but " + err.Error()
				}
				if _, _, err := ParseDSL([]byte(dsl)); err != nil {
					return "accepted, its DSL: " + err.Error()
				}
				return "accepted"
			}
		},
	}.Run(t)
}
