//go:build linux

package graph

import (
	"syscall"
	"unsafe"
)

const (
	hugePage    = 2 << 20
	madvHuge    = 14 // MADV_HUGEPAGE of linux/mman.h, on every architecture of Go
	hugeAtLeast = 2 * hugePage
)

// adviseHuge asks the system to back large memory, not touched yet, by huge
// pages: a random read then seldom has to walk the page table as well. It is a
// hint; where it fails, all works as before.
func adviseHuge[T any](s []T) {
	var one T
	size := uintptr(len(s)) * unsafe.Sizeof(one)
	if size < hugeAtLeast {
		return
	}
	start := uintptr(unsafe.Pointer(&s[0]))
	skip := -start & (hugePage - 1) // only whole pages within s
	size = (size - skip) &^ (hugePage - 1)
	whole := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&s[0]), skip)), size)
	_ = syscall.Madvise(whole, madvHuge)
}
