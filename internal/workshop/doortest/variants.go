package doortest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// Variants is a test that sends variants of valid requests: each member, at any
// depth, is missing, unknown or has another value; each array has other items.
// The outcomes are compared with a file. So every rule of a request is a line of
// that file, and a rule that changes is a line that changes.
type Variants struct {
	// File is the file of outcomes. OSTIARY_REWRITE=1 writes it.
	File string
	// Requests are the valid requests: the name of a call, in the words of the
	// door's test, and a body, which is a JSON object.
	Requests [][2]string
	// Skip, if not nil, reports whether the member at a path keeps its value. The
	// path of a member is that of its object, a dot and its name; the path of an
	// item is that of its array and "[0]".
	Skip func(path string) bool
	// Open opens a door for one request and its variants. The function that it
	// returns sends a body and returns the outcome as one line.
	Open func(t *testing.T, call string) (send func(body []byte) string)
}

// Run runs the test.
func (v Variants) Run(t *testing.T) {
	t.Helper()
	var got strings.Builder
	for _, r := range v.Requests {
		fmt.Fprintf(&got, "%s %s\n", r[0], strings.Join(strings.Fields(r[1]), " "))
		v.print(t, &got, r[0], r[1])
	}
	golden.Equal(t, v.File, got.String())
}

// print prints the outcomes of one request: a line for each place and outcome,
// with the changes at that place.
func (v Variants) print(t *testing.T, out *strings.Builder, call, body string) {
	t.Helper()
	var valid any
	if err := json.Unmarshal([]byte(body), &valid); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	send := v.Open(t, call)
	fmt.Fprintf(out, "\tunchanged: %s\n", send([]byte(body)))
	at, changes := "", map[string][]string{}
	flush := func() {
		for _, outcome := range slices.Sorted(maps.Keys(changes)) {
			fmt.Fprintf(out, "\t%s %s: %s\n", cmp.Or(at, "."), strings.Join(changes[outcome], ", "), outcome)
		}
		clear(changes)
	}
	for _, x := range v.variants(valid, "") {
		if x.at != at {
			flush()
			at = x.at
		}
		changed, err := json.Marshal(x.value)
		if err != nil {
			t.Fatal(err)
		}
		outcome := send(changed)
		changes[outcome] = append(changes[outcome], x.change)
	}
	flush()
}

// variant is a request with one change at a path.
type variant struct {
	at, change string
	value      any
}

// variants returns x, which is at the path at, with one change each.
func (v Variants) variants(x any, at string) (out []variant) {
	switch x := x.(type) {
	case map[string]any:
		out = append(out, variant{at, "unknown member", with(x, "nothing", 1)})
		for _, name := range slices.Sorted(maps.Keys(x)) {
			inner := at + "." + name
			if v.Skip != nil && v.Skip(inner) {
				continue
			}
			less := maps.Clone(x)
			delete(less, name)
			out = append(out, variant{inner, "missing", less})
			for _, other := range []any{nil, "", "a b", "none", -1, true, []any{}, map[string]any{}} {
				out = append(out, variant{inner, jsonText(other), with(x, name, other)})
			}
			for _, y := range v.variants(x[name], inner) {
				out = append(out, variant{y.at, y.change, with(x, name, y.value)})
			}
		}
	case []any:
		if len(x) == 0 {
			return nil
		}
		out = append(out, variant{at, "twice", []any{x[0], x[0]}})
		for _, other := range []any{nil, true, "", "a b", map[string]any{}} {
			out = append(out, variant{at, "of " + jsonText(other), []any{other}})
		}
		for _, y := range v.variants(x[0], at+"[0]") {
			out = append(out, variant{y.at, y.change, []any{y.value}})
		}
	}
	return out
}

// with returns a copy of an object with one more member.
func with(x map[string]any, name string, value any) map[string]any {
	x = maps.Clone(x)
	x[name] = value
	return x
}

func jsonText(v any) string {
	text, _ := json.Marshal(v) // v is one of the values above
	return string(text)
}
