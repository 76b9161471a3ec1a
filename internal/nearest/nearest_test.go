package nearest

import (
	"slices"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	t.Parallel()
	known := []string{"viewer", "can_view", "owner", "own", "doc", "document", strings.Repeat("x", 64), strings.Repeat("y", 65)}
	for name, want := range map[string]string{
		"veiwer": "viewer", "viewr": "viewer", "viewers": "viewer", "can_veiw": "can_view", "ownr": "owner", "doce": "doc", "documnet": "document",
		"Viewer": "viewer", "VIEWER": "viewer", "OWNR": "owner", "DOCUMENTATION": "",
		"viewer": "", "": "", "editor": "", "iewer": "", "dxcxmxnt": "", "vwer": "", "do": "doc", "dco": "doc",
		strings.Repeat("x", 63): strings.Repeat("x", 64), strings.Repeat("y", 64): "", strings.Repeat("x", 65): "",
	} {
		if got := Name(name, slices.Values(known)); got != want {
			t.Errorf("%q: got %q, expected %q", name, got, want)
		}
	}
}

func TestNameKnownMax(t *testing.T) {
	t.Parallel()
	known := make([]string, knownMax+1)
	known[knownMax-1] = "viewer"
	if got := Name("viewr", slices.Values(known)); got != "viewer" {
		t.Errorf("the last name within the bound: got %q", got)
	}
	known[knownMax-1], known[knownMax] = "", "viewer"
	if got := Name("viewr", slices.Values(known)); got != "" {
		t.Errorf("the first name above the bound: got %q", got)
	}
}
