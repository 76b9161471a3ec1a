package password

import "syscall"

// niceness is the priority of the threads of hashes. A thread of the usual
// priority gets nine times as much of a processor that both want. With the lowest
// priority, other programs of the machine could stop logins.
const niceness = 10

// lowerPriority gives the current thread a low priority. On Linux a thread has a
// priority of its own, and 0 names the current one. It has no effect if the system
// refuses it.
func lowerPriority() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, niceness) }
