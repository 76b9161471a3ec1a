package bench

import (
	"regexp"
	"testing"
)

func TestNextCell(t *testing.T) {
	t.Parallel()
	r := &Runner{}
	if got := r.nextCell("x"); got != "x" {
		t.Errorf("without a number of cells: got %q", got)
	}
	r.expect(3)
	if got := r.nextCell("x"); got != "cell 1 of 3: x" {
		t.Errorf("got %q", got)
	}
	if got := r.nextCell("y"); !regexp.MustCompile(`^cell 2 of 3, about \d+ s left: y$`).MatchString(got) {
		t.Errorf("got %q", got)
	}
}
