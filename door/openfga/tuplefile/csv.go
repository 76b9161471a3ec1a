package tuplefile

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/ostiary/ostiary/rel"
)

// The columns of a CSV file, in the order in which they are written.
const (
	userType = iota
	userID
	userRelation
	relation
	objectType
	objectID
	conditionName
	conditionContext
	expires // this project's addition
	columns
)

func columnNames() [columns]string {
	return [...]string{"user_type", "user_id", "user_relation", "relation", "object_type", "object_id", "condition_name", "condition_context", "expires"}
}

// chunkBytes is how much of the file becomes one string, from which the
// tuples' names are cut: no allocation a field.
const chunkBytes = 256 << 10

// csvReader reads records of comma-separated fields as RFC 4180 has them,
// lines ending in LF or CR LF.
type csvReader struct {
	r    io.Reader
	text string // what is read and not yet taken
	line int
	eof  bool

	place  [columns]int // of each column among the fields; -1 is absent
	fields []string
}

func readCSV(r io.Reader) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		c := &csvReader{r: r}
		err := c.header()
		for err == nil {
			var t rel.Tuple
			line := c.line + 1
			if t, err = c.tuple(); err == nil {
				if !yield(t, nil) {
					return
				}
			} else if err != io.EOF {
				yield(rel.Tuple{}, &Error{line, recordError(err)})
				return
			}
		}
		if err != io.EOF {
			yield(rel.Tuple{}, &Error{1, recordError(err)})
		}
	}
}

func (c *csvReader) header() error {
	for i := range c.place {
		c.place[i] = -1
	}
	if err := c.record(); err != nil {
		return err
	}
	names := columnNames()
	c.fields[0] = strings.TrimPrefix(c.fields[0], "\ufeff")
	for i, field := range c.fields {
		found := false
		for col, name := range names {
			if strings.TrimSpace(field) == name {
				if c.place[col] >= 0 {
					return fmt.Errorf("%w: column %q is there twice", ErrTuple, name)
				}
				c.place[col], found = i, true
			}
		}
		if !found {
			return fmt.Errorf("%w: no column is called %q; the columns are %s", ErrTuple, clip(field), strings.Join(names[:], ","))
		}
	}
	for _, col := range [...]int{userType, userID, relation, objectType, objectID} {
		if c.place[col] < 0 {
			return fmt.Errorf("%w: column %q is missing", ErrTuple, names[col])
		}
	}
	if c.place[conditionContext] >= 0 && c.place[conditionName] < 0 {
		return fmt.Errorf("%w: column condition_context needs condition_name", ErrTuple)
	}
	c.fields = make([]string, len(c.fields))
	return nil
}

func clip(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "…"
	}
	return s
}

func (c *csvReader) field(col int) string {
	if i := c.place[col]; i >= 0 {
		return c.fields[i]
	}
	return ""
}

// tuple reads the next record; io.EOF ends the file.
func (c *csvReader) tuple() (rel.Tuple, error) {
	want := len(c.fields)
	if err := c.record(); err != nil {
		return rel.Tuple{}, err
	}
	if len(c.fields) != want {
		got := len(c.fields)
		c.fields = make([]string, want)
		return rel.Tuple{}, fmt.Errorf("%w: %d fields, the header has %d", ErrTuple, got, want)
	}
	t := rel.Tuple{
		Object:    rel.Object{Type: c.field(objectType), ID: c.field(objectID)},
		Relation:  c.field(relation),
		Subject:   rel.Subject{Type: c.field(userType), ID: c.field(userID), Relation: c.field(userRelation)},
		Condition: c.field(conditionName),
	}
	if text := c.field(conditionContext); text != "" {
		context, err := rel.Canonical([]byte(text))
		if err != nil {
			return t, err
		}
		if t.Condition == "" {
			return t, fmt.Errorf("%w: a condition_context without condition_name", ErrTuple)
		}
		if context != "" && context[0] != '{' {
			return t, fmt.Errorf("%w: condition_context is not a JSON object", ErrTuple)
		}
		t.Context = context
	}
	var err error
	if t.Expires, err = parseExpires(c.field(expires)); err != nil {
		return t, err
	}
	return t, t.Validate()
}

// record reads the next record into fields. Empty lines are skipped.
func (c *csvReader) record() error {
	for {
		end, err := c.recordEnd()
		if err != nil {
			return err
		}
		text := c.text[:end]
		c.text = c.text[min(end+1, len(c.text)):]
		c.line += 1 + strings.Count(text, "\n")
		text = strings.TrimSuffix(text, "\r")
		if text == "" {
			continue
		}
		return c.split(text)
	}
}

// recordEnd returns where the first record of text ends, at its newline or at
// the end of the file. It reads on until that is known.
func (c *csvReader) recordEnd() (int, error) {
	from := 0 // everything before is known to hold no end
	quotes := 0
	for {
		if i := strings.IndexByte(c.text[from:], '\n'); i >= 0 {
			end := from + i
			if quotes += strings.Count(c.text[from:end], `"`); quotes%2 == 0 {
				if end > RecordBytesMax {
					return 0, fmt.Errorf("%w: a record above %d bytes", ErrBound, RecordBytesMax)
				}
				return end, nil
			}
			from = end + 1 // the newline stands in a quoted field
			if from > RecordBytesMax {
				return 0, fmt.Errorf("%w: a record above %d bytes", ErrBound, RecordBytesMax)
			}
			continue
		}
		quotes += strings.Count(c.text[from:], `"`)
		from = len(c.text)
		if from > RecordBytesMax {
			return 0, fmt.Errorf("%w: a record above %d bytes", ErrBound, RecordBytesMax)
		}
		if c.eof {
			if from == 0 {
				return 0, io.EOF
			}
			return from, nil
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

// fill adds a chunk to text.
func (c *csvReader) fill() error {
	buf := make([]byte, len(c.text)+chunkBytes)
	n := copy(buf, c.text)
	read, err := io.ReadFull(c.r, buf[n:])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		c.eof = true
	} else if err != nil {
		return err
	}
	c.text = string(buf[:n+read])
	return nil
}

// split cuts a record into fields.
func (c *csvReader) split(text string) error {
	c.fields = c.fields[:0]
	for {
		if len(c.fields) > columns {
			return fmt.Errorf("%w: more than %d fields", ErrTuple, columns)
		}
		if strings.HasPrefix(text, `"`) {
			value, rest, err := quoted(text)
			if err != nil {
				return err
			}
			c.fields = append(c.fields, value)
			if rest == "" {
				return nil
			}
			text = rest[1:]
			continue
		}
		i := strings.IndexByte(text, ',')
		value := text
		if i >= 0 {
			value = text[:i]
		}
		if strings.IndexByte(value, '"') >= 0 {
			return fmt.Errorf("%w: a quote inside a field that is not quoted", ErrTuple)
		}
		c.fields = append(c.fields, value)
		if i < 0 {
			return nil
		}
		text = text[i+1:]
	}
}

// quoted reads a quoted field. rest is "" or begins with a comma.
func quoted(text string) (value, rest string, err error) {
	var b strings.Builder
	for text = text[1:]; ; {
		i := strings.IndexByte(text, '"')
		if i < 0 {
			return "", "", fmt.Errorf("%w: a quote is never closed", ErrTuple)
		}
		b.WriteString(text[:i])
		text = text[i+1:]
		switch {
		case strings.HasPrefix(text, `"`):
			b.WriteByte('"')
			text = text[1:]
		case text == "" || text[0] == ',':
			return b.String(), text, nil
		default:
			return "", "", fmt.Errorf("%w: something stands between a quote and the next comma", ErrTuple)
		}
	}
}

type csvWriter struct {
	w     io.Writer
	buf   bytes.Buffer
	began bool
}

func newCSVWriter(w io.Writer) *csvWriter { return &csvWriter{w: w} }

func (c *csvWriter) Write(t rel.Tuple) error {
	c.begin()
	for i, field := range [columns]string{t.Subject.Type, t.Subject.ID, t.Subject.Relation, t.Relation, t.Object.Type, t.Object.ID, t.Condition, t.Context, formatExpires(t.Expires)} {
		if i > 0 {
			c.buf.WriteByte(',')
		}
		if strings.ContainsAny(field, ",\"\r\n") {
			field = `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
		}
		c.buf.WriteString(field)
	}
	c.buf.WriteByte('\n')
	if c.buf.Len() < 64<<10 {
		return nil
	}
	return c.flush()
}

func (c *csvWriter) begin() {
	if !c.began {
		names := columnNames()
		c.buf.WriteString(strings.Join(names[:], ",") + "\n")
		c.began = true
	}
}

func (c *csvWriter) flush() error {
	_, err := c.buf.WriteTo(c.w)
	return err
}

func (c *csvWriter) Close() error {
	c.begin()
	return c.flush()
}
