//go:build !unix

package permify

import "time"

// cpu returns 0: the processor time is measured on Unix only.
func cpu() time.Duration { return 0 }
