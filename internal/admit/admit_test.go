package admit

import (
	"testing"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestNumberBounds checks attributes at the largest and smallest values of the
// types of whole numbers, and one beyond them.
func TestNumberBounds(t *testing.T) {
	t.Parallel()
	def := &schema.Type{Name: "doc", Attributes: map[string]expr.Type{"int": {Kind: expr.Int}, "uint": {Kind: expr.Uint}}}
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"int", "9223372036854775807", true}, {"int", "9223372036854775808", false}, {"int", `"9223372036854775808"`, false},
		{"int", "-9223372036854775808", true}, {"int", "-9223372036854775809", false}, {"int", "9.223372036854775808e18", false},
		{"int", "1e3", true}, {"int", "1.5", false}, {"int", "null", false}, {"int", "1e999", false},
		{"uint", "0", true}, {"uint", "-1", false}, {"uint", "18446744073709551615", true}, {"uint", "18446744073709551616", false},
		{"uint", `"18446744073709551615"`, true}, {"uint", "1.8446744073709551616e19", false},
	} {
		got, err := AttributeValue(def, &rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: c.name, Value: c.value})
		if (err == nil) != c.ok || c.ok && got == "null" {
			t.Errorf("%s %s: got %q, %v; expected it to be accepted: %v", c.name, c.value, got, err, c.ok)
		}
	}
}
