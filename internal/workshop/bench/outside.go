package bench

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// kernelThreads is the process whose children are the threads of the kernel.
const kernelThreads = 2

// usage is what /proc has of a process: its parent, and the processor time that it and the
// ended children for which it has waited have used.
type usage struct {
	parent int
	used   time.Duration
}

// Outside returns the processor time that programs other than a process and its descendants
// have used, of every priority, and the time that other machines have taken from the
// processors of this one. Threads of the kernel do not count: they work for others. Only the
// difference of two results has a meaning. It fails where /proc has no such files.
func Outside(own int) (sum time.Duration, err error) {
	all, err := usages()
	if err != nil {
		return 0, err
	}
	if sum, err = stolen(); err != nil {
		return 0, err
	}
	for pid, u := range all {
		if pid != kernelThreads && u.parent != kernelThreads && !within(all, pid, own) {
			sum += u.used
		}
	}
	return sum, nil
}

// within reports whether a process is another one or a descendant of it.
func within(all map[int]usage, pid, ancestor int) bool {
	for range len(all) { // parents may have changed while all was read
		if pid == ancestor {
			return true
		}
		u, ok := all[pid]
		if !ok {
			return false
		}
		pid = u.parent
	}
	return false
}

// usages returns the usage of all processes.
func usages() (map[int]usage, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(names) == 0 {
		return nil, errors.Join(errProcess, err)
	}
	all := make(map[int]usage, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		fields, err := statFields(pid)
		if err != nil || len(fields) < 15 {
			continue // it has ended
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, errors.Join(errProcess, err)
		}
		u := usage{parent: parent}
		for _, field := range fields[11:15] { // user, system, and those of children
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return nil, errors.Join(errProcess, err)
			}
			u.used += time.Duration(ticks) * clockTick
		}
		all[pid] = u
	}
	return all, nil
}

// stolen returns the time for which other machines have had the processors of this one.
func stolen() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, errors.Join(errProcess, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return 0, errProcess
	}
	ticks, err := strconv.ParseInt(fields[8], 10, 64)
	if err != nil {
		return 0, errors.Join(errProcess, err)
	}
	return time.Duration(ticks) * clockTick, nil
}
