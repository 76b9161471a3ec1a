package rel

import "testing"

// TestByteClass holds the table of bytes to the slow look at each.
func TestByteClass(t *testing.T) {
	t.Parallel()
	if len(byteClass) != 256 {
		t.Fatal(len(byteClass))
	}
	for c := range 256 {
		s := "ab" + string([]byte{byte(c)}) + "c"
		for _, forbidden := range []string{"#", ":#@"} {
			if quick, slow := name("id", s, IDBytesMax, forbidden), wrongName("id", s, forbidden); (quick == nil) != (slow == nil) {
				t.Errorf("%q without %s: %v, %v", s, forbidden, quick, slow)
			}
		}
	}
}
