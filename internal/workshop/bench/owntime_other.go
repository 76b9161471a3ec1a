//go:build !unix

package bench

import "time"

// OwnTime returns 0: the processor time is measured on Unix only.
func OwnTime() time.Duration { return 0 }
