package tuplefile

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
)

// Locate returns the line and column, counted from 1, at which tuple n of a file
// begins. n counts from 1. If the file ends earlier or cannot be parsed that far,
// it returns the position of the syntax error or of the end, or 0 and 0 if that is unknown, as in
// responses of OpenFGA's Read and ReadChanges.
// Callers use it for error texts; it reads the file again from its beginning.
func Locate(r io.Reader, f Format, n int) (line, column int) {
	switch f {
	case CSV:
		return locateCSV(r, n)
	case JSON, JSONL:
		return locateJSON(r, n)
	case YAML:
		return locateYAML(r, n)
	}
	return 0, 0
}

func locateCSV(r io.Reader, n int) (line, column int) {
	in := csv.NewReader(r)
	in.FieldsPerRecord, in.ReuseRecord = -1, true
	for range n + 1 { // the first record has the names of the columns
		_, err := in.Read()
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			return parse.Line, parse.Column
		}
		if err != nil {
			return 0, 0
		}
	}
	return in.FieldPos(0)
}

func locateYAML(r io.Reader, n int) (line, column int) {
	text, err := io.ReadAll(io.LimitReader(r, YAMLBytesMax))
	if err != nil {
		return 0, 0
	}
	records, err := recordNodes(text)
	if err != nil || n > len(records) {
		return 0, 0
	}
	return records[n-1].Line, records[n-1].Column
}

func locateJSON(r io.Reader, n int) (line, column int) {
	lines := &lineReader{r: r}
	in := &budget{r: lines, remaining: RecordBytesMax}
	buf := bufio.NewReader(in)
	base, list := int64(0), false // base is the number of blanks before the first value
	for {
		c, err := buf.ReadByte()
		if err != nil {
			return 0, 0
		}
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			list = c == '['
			buf.UnreadByte()
			break
		}
		base++
	}
	if start, _ := buf.Peek(256); pagePattern.Match(start) { // a shorter file is not an error
		return 0, 0
	}
	dec := json.NewDecoder(buf)
	if list {
		if _, err := dec.Token(); err != nil {
			return 0, 0
		}
	}
	for range n {
		if list && !dec.More() {
			if _, err := dec.Token(); err != nil { // the file ends inside of the list
				return lines.position(lines.offset)
			}
			return 0, 0
		}
		var raw json.RawMessage
		in.remaining = RecordBytesMax
		lines.drop(base + dec.InputOffset())
		err := dec.Decode(&raw)
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return lines.position(base + syntax.Offset - 1)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return lines.position(lines.offset)
		}
		if err != nil {
			return 0, 0
		}
		line, column = lines.position(base + dec.InputOffset() - int64(len(raw)))
	}
	return line, column
}

// lineReader records where the lines of a text begin.
type lineReader struct {
	r      io.Reader
	offset int64 // bytes read so far
	// starts are the offsets at which lines begin, without the first line and
	// without the dropped ones.
	starts []int64
	// dropped is the number of dropped starts, and last the last one of them.
	dropped int
	last    int64
}

func (l *lineReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for i, c := range p[:n] {
		if c == '\n' {
			l.starts = append(l.starts, l.offset+int64(i)+1)
		}
	}
	l.offset += int64(n)
	return n, err
}

// drop forgets the lines that begin at or before an offset, except the last.
func (l *lineReader) drop(offset int64) {
	n := 0
	for n < len(l.starts) && l.starts[n] <= offset {
		l.last = l.starts[n]
		n++
	}
	l.dropped += n
	l.starts = append(l.starts[:0], l.starts[n:]...)
}

// position returns the line and column of an offset, which must not be before a
// dropped line.
func (l *lineReader) position(offset int64) (line, column int) {
	line, start := l.dropped+1, l.last
	for _, s := range l.starts {
		if s > offset {
			break
		}
		line, start = line+1, s
	}
	return line, int(offset-start) + 1
}
