//go:build !linux

package graph

// adviseHuge does nothing where the system has no such hint.
func adviseHuge[T any]([]T) {}
