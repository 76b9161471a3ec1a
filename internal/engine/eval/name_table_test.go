package eval

import (
	"fmt"
	"strings"
	"testing"
)

// TestNameTable finds names of every length, many of them alike, and none that was
// not added.
func TestNameTable(t *testing.T) {
	t.Parallel()
	var names []string
	for n := 1; n <= 2*nameBytesMax; n++ {
		names = append(names, strings.Repeat("a", n), strings.Repeat("a", n-1)+"b", "b"+strings.Repeat("a", n-1))
	}
	for i := range 1000 {
		names = append(names, fmt.Sprintf("r%d", i), fmt.Sprintf("same-length-%04d-%d", i, i%3), fmt.Sprintf("%08b", i%256)+"x")
	}
	known := map[string]int32{}
	w := newNameTable(len(names))
	for _, name := range names {
		if _, ok := known[name]; !ok {
			known[name] = int32(len(known))
			w.add(name, known[name])
		}
	}
	for name, want := range known {
		if n, ok := w.find(name); !ok || n != want {
			t.Errorf("%q is %d, %v; want %d", name, n, ok, want)
		}
		for _, other := range []string{name + "\x00", "\x00" + name, name[1:], name[:len(name)-1], strings.ToUpper(name)} {
			want, known := known[other]
			if n, ok := w.find(other); ok != known || n != want {
				t.Errorf("%q is %d, %v", other, n, ok)
			}
		}
	}
	if _, ok := new(nameTable).find("a"); ok {
		t.Error("an empty table finds a name")
	}
}

// TestNameTableFull adds more names to one slot than are looked up there.
func TestNameTableFull(t *testing.T) {
	t.Parallel()
	w := newNameTable(1)
	for i := range int32(50) {
		w.add(fmt.Sprint("n", i), i)
	}
	for i := range int32(50) {
		if n, ok := w.find(fmt.Sprint("n", i)); !ok || n != i {
			t.Errorf("n%d is %d, %v", i, n, ok)
		}
	}
	if _, ok := w.find("n50"); ok {
		t.Error("n50 is found")
	}
}
