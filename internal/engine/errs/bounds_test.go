package errs

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// fields returns a line for each field of a struct.
func fields(v any) string {
	var out strings.Builder
	r := reflect.ValueOf(v)
	for i := range r.NumField() {
		fmt.Fprintf(&out, "%s %v\n", r.Type().Field(i).Name, r.Field(i).Interface())
	}
	return out.String()
}

// numbered returns bounds whose fields are different numbers, from 1.
func numbered() authz.Bounds {
	var b authz.Bounds
	r := reflect.ValueOf(&b).Elem()
	for i := range r.NumField() {
		r.Field(i).SetInt(int64(i + 1))
	}
	return b
}

// TestDefaults prints the bounds after WithDefaults: of no bounds, of bounds that are
// all set, and of negative ones. It also prints the constants.
func TestDefaults(t *testing.T) {
	t.Parallel()
	set := numbered()
	negative := set
	r := reflect.ValueOf(&negative).Elem()
	for i := range r.NumField() {
		r.Field(i).SetInt(-1)
	}
	got := "# defaults\n" + fields(WithDefaults(authz.Bounds{})) + "\n# all set\n" + fields(WithDefaults(set))
	got += "\n# filters above the largest value\n" + fmt.Sprintln(WithDefaults(authz.Bounds{WriteFilters: 101}).WriteFilters)
	got += "\n# depths\n" + fmt.Sprintln(WithDefaults(authz.Bounds{DepthMax: 7}).DepthMax, WithDefaults(authz.Bounds{Depth: 8, DepthMax: 7}).DepthMax, WithDefaults(authz.Bounds{Depth: 8, DepthMax: 9}).DepthMax)
	got += "\n# constants\n" + fmt.Sprintln(authz.AliasesMax, authz.NameBytesMax, authz.TokenBytesMax, authz.CursorBytesMax, authz.DocumentKeyBytesMax, authz.SecondaryKeysMax, authz.AttributeValueBytesMax, authz.ScopeIDsMax, authz.PageDefault)
	negative.LoadWait = 0 // has no default
	if WithDefaults(negative) != WithDefaults((authz.Bounds{})) {
		t.Errorf("negative bounds become\n%v", fields(WithDefaults(negative)))
	}
	golden.Equal(t, "testdata/defaults.txt", got)
}

// TestQuery prints the bounds of questions that ask for less than the largest value of
// each bound, for that value, for more, and for nothing.
func TestQuery(t *testing.T) {
	t.Parallel()
	b := numbered()
	b.Depth, b.DepthMax = 3, 20
	largest := QuestionBounds(&b, authz.QuestionBounds{})
	got := "# unset\n" + fields(largest)
	largest.Depth = b.DepthMax
	for name, add := range map[int]int{0: -1, 1: 0, 2: 1} {
		q := largest
		r := reflect.ValueOf(&q).Elem()
		for i := range r.NumField() {
			if f := r.Field(i); f.CanInt() {
				f.SetInt(f.Int() + int64(add))
			}
		}
		answer := QuestionBounds(&b, q)
		want := largest
		if name == 0 {
			want = q
		}
		if fields(answer) != fields(want) {
			t.Errorf("%+d: got\n%s\nexpected\n%s", add, fields(answer), fields(want))
		}
	}
	ones := authz.QuestionBounds{Depth: 1, Nodes: 1, ConditionCost: 1, Memory: 1, ExpandEntries: 1, ExpandBytes: 1}
	if answer := QuestionBounds(&b, ones); answer != ones {
		t.Errorf("the least bounds become\n%s", fields(answer))
	}
	golden.Equal(t, "testdata/query.txt", got)
}

func TestPage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		largest, asked, want int
		err                  error
	}{
		{1000, 0, authz.PageDefault, nil}, {1000, -1, authz.PageDefault, nil}, {10, 0, 10, nil}, {1000, 1, 1, nil},
		{1000, 1000, 1000, nil}, {1000, 1001, 1001, authz.ErrBound}, {authz.PageDefault, 0, authz.PageDefault, nil}, {authz.PageDefault + 1, 0, authz.PageDefault, nil},
	} {
		b := authz.Bounds{PageItems: c.largest}
		if n, err := PageItems(&b, c.asked); n != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%d of %d: got %d, %v; expected %d, %v", c.asked, c.largest, n, err, c.want, c.err)
		}
	}
}
