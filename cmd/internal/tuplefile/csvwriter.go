package tuplefile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"os"

	"github.com/ostiary/ostiary/rel"
)

// csvWriter writes a CSV file. The file has the column expires only if a tuple
// expires, because OpenFGA's command refuses a column that it does not know. So
// the writer does not know the header before the first tuple that expires, and
// stores all earlier rows in a temporary file.
type csvWriter struct {
	w      *bufio.Writer
	rows   *csv.Writer // writes to early, or with expiring to w
	early  earlyRows
	fields [columns]string
	// expiring is true once a tuple expires. The header is written then.
	expiring bool
}

const (
	// csvBufferBytes is how much is written at once.
	csvBufferBytes = 64 << 10
	// earlyBytesMax is how many bytes of rows are kept in memory. More rows are in a
	// temporary file.
	earlyBytesMax = 1 << 20
)

func newCSVWriter(w io.Writer) *csvWriter {
	c := &csvWriter{w: bufio.NewWriterSize(w, csvBufferBytes)}
	c.rows = csv.NewWriter(&c.early)
	return c
}

// Write adds a tuple. It may report the error of an earlier one.
func (c *csvWriter) Write(t rel.Tuple) error {
	if t.Expires != 0 && !c.expiring {
		if err := c.addExpires(); err != nil {
			return err
		}
	}
	c.fields = [...]string{t.Subject.Type, t.Subject.ID, t.Subject.Relation, t.Relation, t.Object.Type, t.Object.ID, t.Condition, t.Context, formatExpires(t.Expires)}
	return c.rows.Write(c.row())
}

// row returns the fields of the columns that the file has.
func (c *csvWriter) row() []string {
	if c.expiring {
		return c.fields[:]
	}
	return c.fields[:expires]
}

// addExpires writes the header with the column expires, and the rows so far with an
// empty field in it.
func (c *csvWriter) addExpires() error {
	c.rows.Flush()
	early, err := c.early.reader()
	if err := errors.Join(c.rows.Error(), err); err != nil {
		return err
	}
	c.expiring, c.rows = true, csv.NewWriter(c.w)
	c.fields = columnNames()
	if err := c.rows.Write(c.fields[:]); err != nil {
		return err
	}
	in := csv.NewReader(early)
	in.ReuseRecord = true
	for {
		fields, err := in.Read()
		if err == io.EOF {
			return c.early.close()
		}
		if err == nil {
			err = c.rows.Write(append(fields, ""))
		}
		if err != nil {
			return err
		}
	}
}

// Close writes what is buffered. A file without tuples has its header.
func (c *csvWriter) Close() (err error) {
	defer func() { err = errors.Join(err, c.early.close()) }()
	c.rows.Flush()
	if err := c.rows.Error(); err != nil {
		return err
	}
	if !c.expiring {
		names, header := columnNames(), csv.NewWriter(c.w)
		if err := header.Write(names[:expires]); err != nil {
			return err
		}
		header.Flush()
		early, err := c.early.reader()
		if err != nil {
			return err
		}
		if _, err := io.Copy(c.w, early); err != nil {
			return err
		}
	}
	return c.w.Flush()
}

// earlyRows keeps the first bytes in memory, and the others in a temporary file
// without a name.
type earlyRows struct {
	memory []byte
	file   *os.File // nil: all is in memory
}

func (e *earlyRows) Write(p []byte) (int, error) {
	if e.file == nil && len(e.memory)+len(p) <= earlyBytesMax {
		e.memory = append(e.memory, p...)
		return len(p), nil
	}
	if e.file == nil {
		f, err := os.CreateTemp("", "ostiary-*.csv")
		if err != nil {
			return 0, err
		}
		os.Remove(f.Name()) // it stays open; where that is impossible, close removes it
		e.file = f
	}
	return e.file.Write(p)
}

// reader returns all that was written.
func (e *earlyRows) reader() (io.Reader, error) {
	if e.file == nil {
		return bytes.NewReader(e.memory), nil
	}
	if _, err := e.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.MultiReader(bytes.NewReader(e.memory), bufio.NewReaderSize(e.file, csvBufferBytes)), nil
}

// close removes the temporary file. It may be called again.
func (e *earlyRows) close() error {
	f := e.file
	e.memory, e.file = nil, nil
	if f == nil {
		return nil
	}
	err := f.Close()
	os.Remove(f.Name())
	return err
}
