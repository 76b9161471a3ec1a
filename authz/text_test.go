package authz

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/rel"
)

// TestInvalidName parses a tuple without a subject, as callers of the library do.
func TestInvalidName(t *testing.T) {
	if _, err := rel.Parse("doc:1#owner@"); !errors.Is(err, ErrInvalidName) {
		t.Errorf("got error %v, expected %v", err, ErrInvalidName)
	}
}

// TestExplanationPrints prints an explanation as fmt.Println does, by its value.
func TestExplanationPrints(t *testing.T) {
	if text := fmt.Sprint(Explanation{}); !strings.HasPrefix(text, "denied: ") {
		t.Errorf("got %q, expected the lines of the explanation", text)
	}
}
