//go:build !linux

package sqllog

// boundUnacknowledged does nothing: other systems have no such setting.
func boundUnacknowledged(uintptr) {}
