//go:build !unix

package server

// raiseFiles returns 0, because the system does not bound a process's files in a
// way that the server knows.
func raiseFiles() int { return 0 }
