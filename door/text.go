package door

import (
	"fmt"

	"github.com/ostiary/ostiary/internal/tool/quote"
)

// textMax is the length up to which an error text stays whole, in bytes, and
// textKept is what remains of the beginning of a longer one.
const (
	textMax  = 8 << 10
	textKept = 1 << 10
)

// ShortText returns an error text for a response. It cuts a very long one, which
// quotes the request: no response repeats megabytes of it.
func ShortText(s string) string {
	if len(s) <= textMax {
		return s
	}
	return fmt.Sprintf("%s (%d bytes in all)", quote.Of(s, textKept), len(s))
}
