package rel

import "testing"

// TestByteClass compares the quick check by byteClass with the slow check of
// each byte.
func TestByteClass(t *testing.T) {
	t.Parallel()
	if len(byteClass) != 256 {
		t.Fatalf("byteClass has %d entries, want 256", len(byteClass))
	}
	for c := range 256 {
		s := "ab" + string([]byte{byte(c)}) + "c"
		for _, forbidden := range []string{"#", ":#@"} {
			if quick, slow := name("id", s, IDBytesMax, forbidden), wrongName("id", s, forbidden); (quick == nil) != (slow == nil) {
				t.Errorf("%q with %q forbidden: quick check %v, slow check %v", s, forbidden, quick, slow)
			}
		}
	}
}
