package snapshot

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/schema"
)

// TestOtherSchemas keeps schemas of many stores within one bound: the stores that have not
// got one for longest drop theirs, and what a dropped store had is no longer counted once there is
// no room.
func TestOtherSchemas(t *testing.T) {
	t.Parallel()
	bound := func(id string, relations int) *BoundSchema {
		compiled, err := schema.Compile(modelOf(relations), nil)
		if err != nil {
			t.Fatal(err)
		}
		return &BoundSchema{Info: authz.SchemaInfo{ID: id}, Schema: compiled}
	}
	each := bound("", 10).Schema.Bytes()
	o := otherSchemas{bytesMax: 4*each + 1}
	sets := make([]*schemaSet, 3)
	expect := func(when string, want ...int) {
		t.Helper()
		sum := 0
		for i, set := range sets {
			if len(set.others) != want[i] || set.othersBytes != want[i]*each {
				t.Errorf("%s: store %d has %d schemas and %d bytes, want %d", when, i, len(set.others), set.othersBytes, want[i])
			}
			sum += want[i]
		}
		if o.size() != int64(sum*each) {
			t.Errorf("%s: %d bytes, want those of %d schemas", when, o.size(), sum)
		}
	}
	for i := range sets {
		sets[i] = &schemaSet{}
	}
	o.keep(sets[0], bound("a", 10))
	o.keep(sets[1], bound("a", 10))
	o.keep(sets[1], bound("b", 10))
	o.keep(sets[0], bound("b", 10))
	o.keep(sets[0], bound("b", 10))
	expect("four", 2, 2, 0)
	o.keep(sets[2], bound("a", 10))
	expect("the second store has waited longest", 2, 0, 1)
	o.keep(sets[2], bound("large", 100))
	expect("a schema above the bound is not kept", 2, 0, 1)
	o.keep(sets[1], bound("large", 100))
	expect("nor is one of a store without others", 2, 0, 1)
	if n := o.order.Len(); n != 2 || len(o.at) != 2 {
		t.Errorf("%d sets in order and %d by address, want 2", n, len(o.at))
	}
	for i := range 5 {
		o.keep(sets[2], bound(fmt.Sprint(i), 10))
	}
	expect("one store has no room for another", 0, 0, 2)
	sets[2] = &schemaSet{}
	runtime.GC()
	for i := range 3 {
		o.keep(sets[1], bound(fmt.Sprint(i), 10))
	}
	expect("a store was dropped", 0, 3, 0)
}
