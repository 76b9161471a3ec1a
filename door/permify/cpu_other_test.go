//go:build !unix

package permify

import "time"

func cpu() time.Duration { return 0 }
