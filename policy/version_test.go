package policy

import "testing"

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, pattern string
		want             int
	}{
		{"1", "1", 0}, {"1", "2", -1}, {"10", "9", 1}, {"1", "1.0", -1}, {"1.0", "1", 1}, {"01.2", "1.02", 0},
		{"99999999999999999999", "100000000000000000000", -1},
		{"1.5", "1.*", 0}, {"1", "1.*", -1}, {"1.5.1", "1.*", 1}, {"2.7", "*.7", 0},
		{"1.2.3", "1.+", 0}, {"1.2", "1.+", 0}, {"1", "1.+", -1}, {"2", "1.+", 1}, {"7.8", "+", 0},
	} {
		if got := compareVersions(c.version, c.pattern); got != c.want {
			t.Errorf("compare %s with %s: %d, expected %d", c.version, c.pattern, got, c.want)
		}
	}
	for text, want := range map[string][2]bool{ // version, pattern
		"1": {true, true}, "1.0.27": {true, true}, "": {}, ".": {}, "1.": {}, "1..2": {}, "-1": {}, "1.x": {},
		"*": {false, true}, "1.*.3": {false, true}, "1.+": {false, true}, "+": {false, true}, "1.+.2": {}, "1.**": {},
	} {
		if got := [2]bool{isVersion(text), isPattern(text)}; got != want {
			t.Errorf("%q is a version and a pattern: %v, expected %v", text, got, want)
		}
	}
}

// TestReferencesFindTheNewest resolves references among versions 1.0 to 3.1.
func TestReferencesFindTheNewest(t *testing.T) {
	t.Parallel()
	var library []Element
	for _, version := range []string{"1.5", "3.0", "1.0", "3.1", "2.0"} {
		library = append(library, &Policy{Header: Header{ID: "p", Version: version, Algorithm: AlgorithmRulesDenyOverrides},
			Rules: []Rule{{ID: "r", Effect: Permit}}})
	}
	for _, c := range []struct {
		ref  Reference
		want string
	}{
		{Reference{}, "3.1"}, {Reference{Version: "1.*"}, "1.5"}, {Reference{Version: "1.0"}, "1.0"},
		{Reference{Earliest: "1.2", Latest: "2.+"}, "2.0"}, {Reference{Latest: "3.0"}, "3.0"},
		{Reference{Version: "*.0", Latest: "2.9"}, "2.0"}, {Reference{Earliest: "2.1"}, "3.1"},
	} {
		ref := c.ref
		ref.ID = "p"
		root := &PolicySet{Header: Header{ID: "s", Version: "1", Algorithm: AlgorithmDenyOverrides}, Children: []Element{&ref}}
		r := request()
		r.ReturnPolicyIDs = true
		got := compiled(t, root, library...).Decide(t.Context(), r, Options{})[0]
		if len(got.Policies) != 2 || got.Policies[1].Version != c.want {
			t.Errorf("reference %+v: %+v, expected version %s", c.ref, got.Policies, c.want)
		}
	}
}
