package password

import "syscall"

// lowerPriority gives the current thread the lowest priority. On Linux a thread
// has a priority of its own, and 0 names the current one. It has no effect if the
// system refuses it.
func lowerPriority() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) }
