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

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
	"github.com/ostiary/ostiary/rel"
)

// A stream of a store's data is one JSON value a line: {"tuple": …},
// {"attribute": …}, and at its end {"end": {"tuples": n, "attributes": n, …}}.
// A stream without that line was cut. An export that fails on its way says so
// in its last line, {"error": …}, and an import refuses such a stream.

// lineBytesMax bounds a line: the largest tuple fits.
const lineBytesMax = 1 << 20

// line is a line of a stream in an answer.
type line struct {
	Tuple     *tupleJSON     `json:"tuple,omitempty"`
	Attribute *attributeJSON `json:"attribute,omitempty"`
	End       *endJSON       `json:"end,omitempty"`
	Error     *problem       `json:"error,omitempty"`
}

type endJSON struct {
	Tuples     int    `json:"tuples"`
	Attributes int    `json:"attributes"`
	Revision   uint64 `json:"revision"`
	Token      string `json:"token"`
}

// exportStream sends all tuples and attributes of one revision.
func (c *call) exportStream(w http.ResponseWriter) error {
	values, err := c.query("token")
	if err != nil {
		return err
	}
	token := ostiary.Token(values.Get("token"))
	if token == "" {
		if token, err = c.store.Head(c.ctx); err != nil {
			return err
		}
	}
	revision, err := token.Revision()
	if err != nil {
		return err
	}
	// The first read finds out what is wrong with the token while an error can
	// still be an error.
	if _, err := c.store.ReadAttributes(c.ctx, ostiary.ReadAttributesRequest{Limit: 1, Consistency: ostiary.AtExactly(token)}); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := exporting{call: c, control: http.NewResponseController(w), buffer: bufio.NewWriterSize(w, 64<<10)}
	out.enc = json.NewEncoder(out.buffer)
	out.enc.SetEscapeHTML(false)
	end := endJSON{Revision: uint64(revision), Token: string(token)}
	last := line{End: &end}
	if err := out.run(ostiary.AtExactly(token), &end); err != nil {
		last = line{Error: describe(err)}
	}
	// If the client is gone there is nobody to tell.
	_ = errors.Join(out.enc.Encode(last), out.buffer.Flush())
	return nil
}

type exporting struct {
	*call
	control *http.ResponseController
	buffer  *bufio.Writer
	enc     *json.Encoder
	lines   int
}

// put writes a line, giving the client time for each part of the stream.
func (e *exporting) put(l line) error {
	if e.lines++; e.lines%1000 == 1 {
		_ = e.control.SetWriteDeadline(time.Now().Add(writeTime))
	}
	return e.enc.Encode(l)
}

func (e *exporting) run(at ostiary.Consistency, end *endJSON) error {
	for t, err := range e.store.Export(e.ctx, at) {
		if err != nil {
			return err
		}
		out := tupleOf(&t)
		if err := e.put(line{Tuple: &out}); err != nil {
			return err
		}
		end.Tuples++
	}
	for q := (ostiary.ReadAttributesRequest{Limit: 1000, Consistency: at}); ; {
		page, err := e.store.ReadAttributes(e.ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Attributes {
			out := attributeOf(&page.Attributes[i])
			if err := e.put(line{Attribute: &out}); err != nil {
				return err
			}
			end.Attributes++
		}
		if q.Cursor = page.Next; page.Next == "" {
			return nil
		}
	}
}

// attributesMost is how many attributes of an import go into one write.
const attributesMost = 1000

// importStream writes a stream's tuples as they come, in large entries, each of
// them atomic; its attributes after each part of them. What was written before
// an error stays, and the answer counts it.
func (c *call) importStream(w http.ResponseWriter) error {
	if err := jsonOnly(c.r, "application/x-ndjson"); err != nil {
		return err
	}
	values, err := c.query("on_duplicate", "schema")
	if err != nil {
		return err
	}
	o := ostiary.ImportOptions{SchemaID: values.Get("schema")}
	if text := values.Get("on_duplicate"); values.Has("on_duplicate") {
		var ok bool
		if o.OnDuplicate, ok = readPolicy(text, true); !ok {
			return invalid("on_duplicate is none of fail, ignore, replace")
		}
	}
	in := importing{call: c, lines: bufio.NewReaderSize(c.r.Body, 64<<10), schema: o.SchemaID}
	got, err := c.store.Import(c.ctx, in.tuples(), o)
	if err == nil {
		err = in.attributes()
	}
	if err != nil {
		p := *describe(err)
		p.Read = &got.Read
		return &p
	}
	token := got.Token
	if in.token != "" {
		token = in.token
	}
	return c.imported(w, got.Read, in.set, token)
}

func (c *call) imported(w http.ResponseWriter, read, set int, token ostiary.Token) error {
	if token == "" {
		head, err := c.store.Head(c.ctx)
		if err != nil {
			return err
		}
		token = head
	}
	revision, err := token.Revision()
	if err != nil {
		return err
	}
	if err := c.json(struct {
		Read       int `json:"read"`
		Attributes int `json:"attributes"`
		written
	}{read, set, written{string(token), uint64(revision)}}); err != nil {
		return err
	}
	c.reply(w, nil)
	return nil
}

// importing reads a stream.
type importing struct {
	*call
	lines   *bufio.Reader
	schema  string
	number  int
	count   endJSON
	ended   bool
	pending []rel.Attribute
	set     int
	token   ostiary.Token
}

// tuples yields the stream's tuples and keeps its attributes.
func (in *importing) tuples() iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		for {
			text, err := in.line()
			if err == io.EOF {
				return
			}
			var t rel.Tuple
			var tuple bool
			if err == nil {
				t, tuple, err = in.read(text)
			}
			if err != nil {
				yield(rel.Tuple{}, err)
				return
			}
			if tuple && !yield(t, nil) {
				return
			}
		}
	}
}

// line returns the next line that is not empty.
func (in *importing) line() ([]byte, error) {
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
				return nil, &problem{status: http.StatusRequestEntityTooLarge, Code: "bound", Message: in.where("longer than " + strconv.Itoa(lineBytesMax) + " bytes"),
					Bound: &boundJSON{Name: "LineBytes", Max: lineBytesMax}}
			}
		}
		if err == io.EOF && len(text) > 0 {
			err = nil
		}
		if err != nil {
			var large *http.MaxBytesError
			if err != io.EOF && !errors.As(err, &large) {
				err = invalid(in.where("the stream broke off"))
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

func (in *importing) where(text string) string {
	return "line " + strconv.Itoa(in.number) + ": " + text
}

// read reads one line: a tuple, or something that is kept.
func (in *importing) read(text []byte) (t rel.Tuple, tuple bool, err error) {
	if in.ended {
		return t, false, invalid(in.where("something stands behind the end"))
	}
	r := jsonread.New(text)
	n := 0
	for r.Object(); r.Field(); n++ {
		switch string(r.Name()) {
		case "tuple":
			t, tuple = readTuple(r, false), true
			in.count.Tuples++
		case "attribute":
			in.pending = append(in.pending, readAttribute(r, true))
			in.count.Attributes++
		case "end":
			in.end(r)
		case "error":
			r.Fail("the stream is of an export that failed")
		default:
			r.Unknown()
		}
	}
	if n != 1 {
		r.Fail("one of tuple, attribute, end is wanted")
	}
	if err := r.End(); err != nil {
		return t, false, &problem{status: http.StatusBadRequest, Code: "malformed", Message: in.where(err.Error())}
	}
	if len(in.pending) >= attributesMost {
		err = in.attributes()
	}
	return t, tuple, err
}

// end holds what the stream says it held against what came.
func (in *importing) end(r *jsonread.Reader) {
	in.ended = true
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "tuples":
			if int(r.Int(0, 1<<53)) != in.count.Tuples {
				r.Fail("not as many came")
			}
		case "attributes":
			if int(r.Int(0, 1<<53)) != in.count.Attributes {
				r.Fail("not as many came")
			}
		default:
			r.Skip()
		}
	}
}

// attributes writes those that are kept.
func (in *importing) attributes() error {
	if len(in.pending) == 0 {
		return nil
	}
	// Of one attribute that comes twice the later counts, as if written apart.
	at := map[rel.Attribute]int{}
	var w ostiary.WriteRequest
	w.SchemaID = in.schema
	for _, a := range in.pending {
		key := rel.Attribute{Object: a.Object, Name: a.Name}
		if i, ok := at[key]; ok {
			w.SetAttributes[i] = a
			continue
		}
		at[key] = len(w.SetAttributes)
		w.SetAttributes = append(w.SetAttributes, a)
	}
	token, err := in.store.Write(in.ctx, w)
	if err != nil {
		return err
	}
	in.set += len(w.SetAttributes)
	in.token, in.pending = token, in.pending[:0]
	return nil
}
