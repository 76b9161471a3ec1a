package derived

import "testing"

func TestCache(t *testing.T) {
	t.Parallel()
	c := New[string, int, string](2)
	want := func(state string, key int, value string, found bool) {
		t.Helper()
		if v, ok := c.Get(state, key); v != value || ok != found {
			t.Errorf("Get(%q, %d) = %q, %v, want %q, %v", state, key, v, ok, value, found)
		}
	}
	want("", 1, "", false)
	c.Add("a", 1, "one")
	c.Add("a", 2, "two")
	want("a", 1, "one", true)
	want("a", 2, "two", true)
	want("b", 1, "", false)
	c.Add("a", 3, "three") // the cache is full
	want("a", 1, "", false)
	want("a", 3, "three", true)
	c.Add("b", 1, "other")
	want("b", 1, "other", true)
	want("a", 3, "", false)
	c.Add("a", 1, "late") // by who was slower than the change
	want("b", 1, "", false)
	want("a", 3, "", false)
	want("a", 1, "late", true)
}
