package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrPosition means that a text is no position of [ReadBack].
var ErrPosition = errors.New("invalid position in a log")

// blockBytes is how much of a file ReadBack reads at once. A line fits.
const blockBytes = 1 << 20

// ReadBack calls f with each whole line of the log with a name in a folder, the newest one first,
// without its end. f must not keep the line. ReadBack begins in front of a position that another
// call has returned; "" is the end of the log. It ends when f returns false, after about most
// bytes, or at the beginning of the log, and returns the position of the last line that f got, or
// "" if there is nothing before it. A file that is removed meanwhile is left out. It fails with
// [ErrPosition], or if a file cannot be read.
func ReadBack(folder, name, from string, most int64, f func(line []byte) bool) (next string, err error) {
	number, offset, err := parsePosition(from)
	if err != nil {
		return "", err
	}
	names, err := FolderOf(folder, name)
	if err != nil {
		return "", err
	}
	more := true
	for _, file := range slices.Backward(names) {
		n, _ := numberOf(file, name+"-")
		if from != "" && n > number {
			continue
		}
		if from == "" || n < number {
			offset = -1
		}
		if !more || most <= 0 {
			return position(n, -1), nil
		}
		var read int64
		if read, more, err = readBackFile(file, &offset, most, f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if most -= read; err == nil && offset > 0 {
			return position(n, offset), nil
		}
	}
	return "", nil
}

// position returns the text of a position in the file with a number; an offset of -1 is its end.
func position(number uint64, offset int64) string {
	return strconv.FormatUint(number, 10) + "." + strconv.FormatInt(offset, 10)
}

func parsePosition(text string) (number uint64, offset int64, err error) {
	if text == "" {
		return 0, -1, nil
	}
	file, place, _ := strings.Cut(text, ".")
	if number, err = strconv.ParseUint(file, 10, 64); err == nil {
		offset, err = strconv.ParseInt(place, 10, 64)
	}
	if err != nil || offset < -1 || text != position(number, offset) {
		return 0, 0, fmt.Errorf("%w: expected one that a page of the log has as next", ErrPosition)
	}
	return number, offset, nil
}

// readBackFile is [ReadBack] for one file. offset is where it begins, -1 for the end, and where it
// has ended: 0 if there is nothing before.
func readBackFile(name string, offset *int64, most int64, f func(line []byte) bool) (read int64, more bool, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, true, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, true, err
	}
	if size := info.Size(); *offset < 0 || *offset > size {
		*offset = size
	}
	buffer := make([]byte, min(blockBytes, *offset))
	for *offset > 0 && read < most {
		b := buffer[:min(int64(len(buffer)), *offset)]
		start := *offset - int64(len(b))
		if _, err := file.ReadAt(b, start); err != nil && err != io.EOF {
			return read, true, err
		}
		read += int64(len(b))
		b = b[:bytes.LastIndexByte(b, '\n')+1] // what follows is no whole line
		for {
			end := len(b) - 1
			first := bytes.LastIndexByte(b[:max(end, 0)], '\n') + 1
			if end < 0 || first == 0 && start > 0 {
				break // the line begins in the block before
			}
			if *offset = start + int64(first); !f(b[first:end]) {
				return read, false, nil
			}
			b = b[:first]
		}
		if start == 0 {
			*offset = 0
		} else if *offset = start + int64(len(b)); len(b) == len(buffer) || len(b) == 0 {
			*offset = start // no line is as long as the block
		}
	}
	return read, true, nil
}
