//go:build !linux

package password

// lowerPriority does nothing, because other systems have no priority of a thread
// that a program can set in this way.
func lowerPriority() {}
