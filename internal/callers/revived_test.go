package callers

import (
	"slices"
	"testing"
)

// TestRevived compares the keys of a backup with those that there were later: one was revoked, one
// revoked and made again under its name, one rotated, one stayed, and one was made since.
func TestRevived(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.store("a")
	for _, name := range []string{"revoked", "again", "rotated", "stays"} {
		w.key(t.Context(), NewKey{Name: name, Stores: []string{"a"}, Rights: []string{"read"}})
	}
	backup, err := w.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"revoked", "again"} {
		if _, err := w.Revoke(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"again", "new"} {
		w.key(t.Context(), NewKey{Name: name, Stores: []string{"a"}, Rights: []string{"read"}})
	}
	if _, err := w.Rotate(t.Context(), "rotated", 0); err != nil {
		t.Fatal(err)
	}
	later, err := w.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, k := range Revived(backup, later) {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	if want := []string{"again", "revoked", "rotated"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
}
