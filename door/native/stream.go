package native

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// A stream of a store's data has one JSON value on each line: {"tuple": ...},
// {"attribute": ...} and, as the last line, {"end": {"tuples": n, "attributes":
// n, ...}}. A stream without the last line is incomplete. An export that fails
// midway ends with {"error": ...} instead. An import fails for both streams.

// lineBytesMax bounds a line, in bytes. The largest tuple fits.
const lineBytesMax = 1 << 20

// line is one line of an export. Exactly one field is set.
type line struct {
	Tuple     *tupleJSON     `json:"tuple,omitempty"`
	Attribute *attributeJSON `json:"attribute,omitempty"`
	End       *endJSON       `json:"end,omitempty"`
	Error     *problem       `json:"error,omitempty"`
}

// endJSON is the last line of a stream: the number of its tuples and
// attributes, and the revision with the origin of its entry, as far as the log has it.
type endJSON struct {
	Tuples     int    `json:"tuples"`
	Attributes int    `json:"attributes"`
	Revision   uint64 `json:"revision"`
	Token      string `json:"token"`
	OriginJSON
}

// exportStream serves Export: all tuples and attributes of one revision. A client
// that lost the connection passes the token of the revision and, as skip, the number
// of lines that it has; the stream then has the other lines.
func (c *call) exportStream() error {
	values, err := c.QueryOf("token", "skip")
	if err != nil {
		return err
	}
	skip := 0
	if text := values.Get("skip"); values.Has("skip") {
		if skip, err = strconv.Atoi(text); err != nil || skip < 0 || values.Get("token") == "" {
			return invalidRequest("invalid skip: expected a number of lines, together with the token of the export that has them")
		}
	}
	token := authz.Token(values.Get("token"))
	if token == "" {
		if token, err = c.store.Head(c.Context()); err != nil {
			return err
		}
	}
	revision, err := token.Revision()
	if err != nil {
		return err
	}
	// The view is chosen before the response begins, while an error can still be an
	// error response, and is held, because the window may pass before the end.
	at, err := c.store.Hold(c.Context(), authz.AtExactly(token))
	if err != nil {
		return err
	}
	entry, err := c.store.Entry(c.Context(), token)
	if err != nil && !errors.Is(err, authz.ErrTooOld) {
		return err
	}
	c.W.Header().Set("Content-Type", "application/x-ndjson")
	out := exporter{call: c, control: http.NewResponseController(c.W), buffer: bufio.NewWriterSize(c.W, 64<<10), skip: skip}
	out.enc = json.NewEncoder(out.buffer)
	out.enc.SetEscapeHTML(false)
	end := endJSON{Revision: uint64(revision), Token: string(token), OriginJSON: originOf(&entry.Origin)}
	last := line{End: &end}
	if err := out.run(at, &end); err != nil {
		last = line{Error: describe(err)}
	}
	// Ignore errors: the client may be gone.
	_ = errors.Join(out.enc.Encode(last), out.buffer.Flush())
	return nil
}

// exporter writes the lines of an export.
type exporter struct {
	*call
	control *http.ResponseController
	buffer  *bufio.Writer
	enc     *json.Encoder
	// lines is the number of lines written. skip is the number of lines that are left
	// out before them.
	lines, skip int
}

// writeLine writes one line. It renews the write deadline every 1,000 lines.
func (e *exporter) writeLine(l line) error {
	if e.lines++; e.lines%1000 == 1 {
		_ = e.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	return e.enc.Encode(l)
}

// skips reports whether the next line is left out.
func (e *exporter) skips() bool {
	if e.skip == 0 {
		return false
	}
	e.skip--
	return true
}

// run writes the tuples and attributes, and counts them in end, together with those
// that skip leaves out.
func (e *exporter) run(at authz.Consistency, end *endJSON) error {
	for t, err := range e.store.Export(e.Context(), at) {
		if err != nil {
			return err
		}
		if end.Tuples++; e.skips() {
			continue
		}
		out := tupleOf(&t)
		if err := e.writeLine(line{Tuple: &out}); err != nil {
			return err
		}
	}
	for q := (authz.ReadAttributesRequest{Limit: 1000, Consistency: at}); ; {
		page, err := e.store.ReadAttributes(e.Context(), q)
		if err != nil {
			return err
		}
		for i := range page.Attributes {
			if end.Attributes++; e.skips() {
				continue
			}
			out := attributeOf(&page.Attributes[i])
			if err := e.writeLine(line{Attribute: &out}); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}

// attributeBatchMax is how many attributes of an import one write contains.
const attributeBatchMax = 1000

// importStream serves Import. It writes tuples as they arrive, in large writes.
// Each write is atomic, but the import is not: what was written before an error
// stays, and the error response counts it. Attributes are written in batches
// and at the end.
func (c *call) importStream() error {
	if _, err := c.Media("application/x-ndjson"); err != nil {
		return err
	}
	values, err := c.QueryOf("on_duplicate", "schema", "entry")
	if err != nil {
		return err
	}
	o := authz.ImportOptions{SchemaID: values.Get("schema")}
	if text := values.Get("on_duplicate"); values.Has("on_duplicate") {
		var ok bool
		if o.OnDuplicate, ok = parseConflictAction(text, true); !ok {
			return invalidRequest("invalid on_duplicate: expected fail, ignore or replace")
		}
	}
	if o.EntryTuples, err = intParam(values, "entry", 0, storage.ChangesMax); err != nil {
		return err
	}
	in := importer{call: c, lines: bufio.NewReaderSize(c.R.Body, 64<<10), schema: o.SchemaID}
	result, err := c.store.Import(c.Context(), in.tuples(), o)
	if err == nil {
		err = in.attributes()
	}
	if err != nil {
		if refusal, ok := errors.AsType[*door.Refusal](c.Context().Err()); ok { // not what the client has sent
			err = refusal
		}
		p := *describe(err)
		p.Read = &result.Read
		_, malformed := errors.AsType[*problem](err) // its text has the line
		if wrong, ok := errors.AsType[*authz.ImportError](err); ok && !malformed {
			p.Tuple = wrong.Tuple
		}
		return &p
	}
	token := result.Token
	if in.token != "" {
		token = in.token
	}
	return c.imported(&result, in.set, token)
}

// imported writes the response of an import.
func (c *call) imported(result *authz.ImportResult, set int, token authz.Token) error {
	if token == "" {
		head, err := c.store.Head(c.Context())
		if err != nil {
			return err
		}
		token = head
	}
	revision, err := token.Revision()
	if err != nil {
		return err
	}
	return c.setJSON(struct {
		Read       int `json:"read"`
		Written    int `json:"written"`
		Attributes int `json:"attributes"`
		writeResultJSON
	}{result.Read, result.Written, set, writeResultJSON{string(token), uint64(revision)}})
}

// importer reads a stream.
type importer struct {
	*call
	lines *bufio.Reader
	// schema is the id of the schema that must admit the attributes.
	schema string
	// number is the number of the current line, from 1.
	number int
	// count counts the tuples and attributes of the stream.
	count endJSON
	// ended is true after the end line.
	ended bool
	// pending are attributes that are not written yet.
	pending []rel.Attribute
	// set is the number of attributes that were written, and token the token of
	// the last such write.
	set   int
	token authz.Token
}

// tuples yields the stream's tuples. It collects and writes the attributes on
// the way. It yields an error if the stream has no end line.
func (in *importer) tuples() iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		for {
			text, err := in.line()
			if err == io.EOF {
				if in.ended {
					return
				}
				err = &problem{status: http.StatusBadRequest, Code: "incomplete", Message: in.where("the stream ends without an end line")}
			}
			var t rel.Tuple
			var isTuple bool
			if err == nil {
				t, isTuple, err = in.read(text)
			}
			if err != nil {
				yield(rel.Tuple{}, err)
				return
			}
			if isTuple && !yield(t, nil) {
				return
			}
		}
	}
}

// line returns the next line that is not empty.
func (in *importer) line() ([]byte, error) {
	for {
		in.number++
		text, err := in.lines.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			long := append([]byte(nil), text...)
			for err == bufio.ErrBufferFull && len(long) <= lineBytesMax {
				text, err = in.lines.ReadSlice('\n')
				long = append(long, text...)
			}
			if text = long; len(text) > lineBytesMax {
				return nil, &problem{status: http.StatusRequestEntityTooLarge, Code: "too_large", Message: in.where("longer than " + strconv.Itoa(lineBytesMax) + " bytes"),
					Bound: &boundJSON{Name: "LineBytes", Max: lineBytesMax}}
			}
		}
		if err == io.EOF && len(text) > 0 {
			err = nil
		}
		if err != nil {
			var large *http.MaxBytesError
			if err != io.EOF && !errors.As(err, &large) {
				err = invalidRequest(in.where("cannot read the stream"))
			}
			return nil, err
		}
		for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r') {
			text = text[:len(text)-1]
		}
		if len(text) > 0 {
			return text, nil
		}
	}
}

// where adds the line's number to an error text.
func (in *importer) where(text string) string {
	return "line " + strconv.Itoa(in.number) + ": " + text
}

// read reads one line. isTuple is true if it is a tuple; other lines are
// handled here.
func (in *importer) read(text []byte) (t rel.Tuple, isTuple bool, err error) {
	if in.ended {
		return t, false, invalidRequest(in.where("unexpected data after the end line"))
	}
	r := jsonread.New(text)
	n := 0
	for r.Object(); r.Field(); n++ {
		switch string(r.Name()) {
		case "tuple":
			t, isTuple = readTuple(r, false), true
			in.count.Tuples++
		case "attribute":
			in.pending = append(in.pending, readAttribute(r, true))
			in.count.Attributes++
		case "end":
			in.end(r)
		case "error":
			r.Fail("the export of this stream failed")
		default:
			r.Unknown()
		}
	}
	if n != 1 {
		r.Fail("expected one of tuple, attribute, end")
	}
	if err := r.End(); err != nil {
		return t, false, &problem{status: http.StatusBadRequest, Code: "malformed", Message: in.where(err.Error())}
	}
	if len(in.pending) >= attributeBatchMax {
		err = in.attributes()
	}
	return t, isTuple, err
}

// end reads the last line, and compares its counts with the lines before it.
func (in *importer) end(r *jsonread.Reader) {
	in.ended = true
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "tuples":
			if int(r.Int(0, 1<<53)) != in.count.Tuples {
				r.Fail("the count differs from the lines of the stream")
			}
		case "attributes":
			if int(r.Int(0, 1<<53)) != in.count.Attributes {
				r.Fail("the count differs from the lines of the stream")
			}
		default:
			r.Skip()
		}
	}
}

// attributes writes the pending attributes.
func (in *importer) attributes() error {
	if len(in.pending) == 0 {
		return nil
	}
	// If an attribute occurs twice, the later one counts, as in separate
	// writes.
	index := map[rel.Attribute]int{}
	var w authz.WriteRequest
	w.SchemaID = in.schema
	for _, a := range in.pending {
		key := rel.Attribute{Object: a.Object, Name: a.Name}
		if i, ok := index[key]; ok {
			w.SetAttributes[i] = a
			continue
		}
		index[key] = len(w.SetAttributes)
		w.SetAttributes = append(w.SetAttributes, a)
	}
	token, err := in.store.Write(in.Context(), w)
	if err != nil {
		return err
	}
	in.set += len(w.SetAttributes)
	in.token, in.pending = token, in.pending[:0]
	return nil
}
