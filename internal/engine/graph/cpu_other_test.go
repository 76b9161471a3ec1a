//go:build !unix

package graph_test

import "time"

func cpu() time.Duration { return 0 }
