package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// errProcess is returned if the usage of a process cannot be read from /proc.
var errProcess = errors.New("bench: cannot read the resource usage of a process")

// clockTick is the unit of processor times in /proc. Linux fixes it at 1/100 s.
const clockTick = 10 * time.Millisecond

// ProcessorTime returns the processor time that a process has used since its
// start, in steps of 10 ms. It returns an error if the process does not exist.
func ProcessorTime(pid int) (time.Duration, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, errors.Join(errProcess, err)
	}
	return time.Duration(user+system) * clockTick, nil
}

// Used returns the processor time that a process and its running children have used, 0
// if it is unknown.
func Used(pid int) (sum time.Duration) {
	for _, pid := range append(children(pid), pid) {
		d, err := ProcessorTime(pid)
		if err != nil {
			return 0
		}
		sum += d
	}
	return sum
}

// ResidentOfAll returns the resident memory of a process and its running children, in
// bytes. Memory that they share counts several times.
func ResidentOfAll(pid int) (sum int64) {
	for _, pid := range append(children(pid), pid) {
		if n, err := Resident(pid); err == nil {
			sum += n
		}
	}
	return sum
}

// Busy returns the processor time that all processors of this machine together have
// used for programs of normal or high priority, and the time that has passed on all of
// them, since its start. Programs of low priority give way, so their time counts as free.
func Busy() (busy, all time.Duration, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, errors.Join(errProcess, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, errProcess
	}
	for i, field := range fields[1:9] { // guest time is a part of user time
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, errors.Join(errProcess, err)
		}
		all += time.Duration(ticks) * clockTick
		if i != 1 && i != 3 && i != 4 { // low priority, idle, and idle while a disk works
			busy += time.Duration(ticks) * clockTick
		}
	}
	return busy, all, nil
}

// LoadAverage returns the number of processes that were ready to run in the last minute, on
// average, or 0 if it is unknown.
func LoadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return n
}

// statFields returns the fields of /proc/PID/stat after the program's name. The name
// is in parentheses and may contain any byte.
func statFields(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, errors.Join(errProcess, err)
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return nil, errProcess
	}
	return fields, nil
}

// children returns the running children of a process.
func children(pid int) (pids []int) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil // the pattern is correct
	}
	for _, name := range names {
		child, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if fields, err := statFields(child); err == nil && fields[1] == strconv.Itoa(pid) {
			pids = append(pids, child)
		}
	}
	return pids
}

// Resident returns the resident memory of a process in bytes.
func Resident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, errors.Join(errProcess, err)
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, errProcess
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// Machine returns a description of this machine in one line: processors, model,
// memory, and the version of Go.
func Machine() string {
	s := fmt.Sprintf("%d × %s", runtime.NumCPU(), runtime.GOARCH)
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				s = fmt.Sprintf("%d × %s", runtime.NumCPU(), strings.TrimSpace(value))
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			if kib, err := strconv.ParseFloat(f[1], 64); err == nil {
				s += fmt.Sprintf(", %.0f GiB", kib/(1<<20))
			}
		}
	}
	return s + ", " + runtime.Version()
}

// Commit returns the revision from which this program was built, with a "+" if
// files had uncommitted changes. It returns "" if the build has no revision.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, changed := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+"
			}
		}
	}
	return revision + changed
}
