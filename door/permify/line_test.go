package permify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestLines compares what texts of tuples and attributes mean, or why they are
// refused, with testdata/lines.txt.
func TestLines(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, text := range []string{
		"doc:1#viewer@user:2", " doc:1#viewer@user:2 ", "doc:1#viewer@group:2#member", "doc:1#viewer@user:2#...", "doc:1#viewer@user:*", "doc:*#viewer@user:1",
		"", "doc", "doc:1", "doc:1#viewer", "doc:1#viewer@", "doc:1#viewer@user", "doc#viewer@user:1", "doc:1@user:1", "doc:1#@user:1", ":1#viewer@user:1", "doc:#viewer@user:1",
		"doc:1#viewer@:1", "doc:1#viewer@user:", "doc:1#viewer@user:1#", "doc:1#viewer@user:1#a#b", "d oc:1#viewer@user:1", "doc:1#vie wer@user:1", "doc:1 2#viewer@user:1", "doc:1#viewer@us er:1", "doc:1#viewer@user:1 2",
		"doc:1#viewer@user:1#mem ber", "doc:{{.a}}#viewer@user:1", "doc:{{a}}#viewer@user:1", "doc:{{.a#viewer@user:1", "doc:{{.}}#viewer@user:1",
	} {
		tuple, err := ParseTuple(text)
		if err != nil {
			fmt.Fprintf(&out, "%q: %v\n", text, err)
			continue
		}
		fmt.Fprintf(&out, "%q: %s\n", text, tuple)
	}
	for _, text := range []string{
		"doc:1$public|boolean:true", " doc:1$public|boolean:false ", "doc:1$public", "doc:1$size|integer:-5", "doc:1$size|double:1.5", "doc:1$size|double:5", "doc:1$name|string:", "doc:1$name|string:a,b:c|d", "doc:1$tags|string[]:a,b",
		"doc:1$tags|string[]:", "doc:1$tags|string[]:a,", "doc:1$tags|boolean[]:true,false", "doc:1$tags|integer[]:1,-2", "doc:1$tags|double[]:1,2.5",
		"", "doc:1", "doc$public", "doc:1$", ":1$public", "doc:$public", "$public", "doc:1$public|", "doc:1$public|boolean", "doc:1$public|:true", "doc:1$public|boolean:", "doc:1$public|boolean:yes", "doc:1$public|boolean:TRUE",
		"doc:1$size|integer:", "doc:1$size|integer:1.5", "doc:1$size|integer:2147483647", "doc:1$size|integer:2147483648", "doc:1$size|integer:-2147483648", "doc:1$size|integer:-2147483649", "doc:1$size|integer: 1", "doc:1$size|double:x", "doc:1$size|double:NaN", "doc:1$size|double:Inf", "doc:1$size|double:1e999", "doc:1$size|number:1",
		"doc:1$tags|integer[]:1,x", "doc:1$tags|integer[]:1,", "doc:1$tags|boolean[]:true,maybe", "doc:1$tags|[]:a", "doc:1$tags|string[][]:a", "doc:1$tags|any:1", "doc:1$tags|any[]:1", "doc:1$pub lic|boolean:true", "d oc:1$public|boolean:true", "doc:1 2$public|boolean:true",
		"doc:{{.a}}$public|boolean:true", "doc:1$public|boolean:{{.a}}", "doc:1$public|{{.a}}:true", "doc:1$public|boolean:{{.a",
	} {
		a, typ, err := ParseAttribute(text)
		if err != nil {
			fmt.Fprintf(&out, "%q: %v\n", text, err)
			continue
		}
		fmt.Fprintf(&out, "%q: %s %s = %s %s\n", text, a.Object, a.Name, typ, a.Value)
		if m, err := ParseAttributeMessage(text); (err == nil) != (a.Value != "") || err == nil && m.GetValue() == nil {
			t.Errorf("the message of %q is %v, %v", text, m, err)
		}
	}
	golden.Equal(t, "testdata/lines.txt", out.String())
}
