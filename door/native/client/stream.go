package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/rel"
)

// ImportOptions are the settings of an import.
type ImportOptions struct {
	// OnDuplicate and Schema are as in [Write].
	OnDuplicate, Schema string
	// Entry is the number of tuples in one entry of the log; 0 is the server's default.
	Entry int
}

// Imported is the result of an import.
type Imported struct {
	// Read is the number of tuples that the store has, and Written that of those that
	// are new or changed; -1 if it is not known.
	Read    int    `json:"read"`
	Written int    `json:"written"`
	Token   string `json:"token"`
}

// Import writes tuples in large entries of the log, as one stream. An error of the
// sequence is returned as it is. After it and after an [*Error], the result has the
// number of tuples that are stored; after a failed connection that number is unknown.
func (s *Store) Import(ctx context.Context, tuples iter.Seq2[rel.Tuple, error], o ImportOptions) (out Imported, err error) {
	query := url.Values{}
	for name, value := range map[string]string{"on_duplicate": o.OnDuplicate, "schema": o.Schema} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if o.Entry > 0 {
		query.Set("entry", strconv.Itoa(o.Entry))
	}
	reader, writer := io.Pipe()
	failed := make(chan error, 1) // receives the error of the sequence
	go func() {
		failed <- encode(writer, tuples)
		writer.Close()
	}()
	out.Written = -1 // of a server that does not report it
	_, err = s.client.Call(ctx, http.MethodPost, s.Path("/import?"+query.Encode()), lines{reader}, &out)
	reader.CloseWithError(io.ErrClosedPipe) // ends the goroutine if the server did not read everything
	sequence := <-failed
	refused, answered := errors.AsType[*Error](err)
	if answered {
		out.Read = refused.Read
	}
	if sequence != nil && !errors.Is(sequence, io.ErrClosedPipe) {
		return out, sequence
	}
	return out, err
}

// encode writes the lines of an import, which ends with a count. After an error of the
// sequence the count is missing, so that the import fails.
func encode(w io.Writer, tuples iter.Seq2[rel.Tuple, error]) error {
	out := bufio.NewWriterSize(w, 64<<10)
	n := 0
	var line []byte
	for t, err := range tuples {
		if err != nil {
			out.Flush() // an error means that the server has answered
			return err
		}
		text, err := json.Marshal(TupleOf(t))
		if err != nil {
			return err
		}
		line = append(append(append(line[:0], `{"tuple":`...), text...), "}\n"...)
		if _, err := out.Write(line); err != nil {
			return err
		}
		n++
	}
	fmt.Fprintf(out, "{\"end\":{\"tuples\":%d,\"attributes\":0}}\n", n)
	return out.Flush()
}

// Export is a stream with all tuples and attributes of one revision, in an order that
// never changes. It is not safe for concurrent use.
type Export struct {
	body io.Closer
	dec  *json.Decoder
}

// Line is a line of an export. Exactly one field is set.
type Line struct {
	Tuple     *Tuple
	Attribute *Attribute
	// End is the last line, with the numbers of all lines.
	End   *struct{ Tuples, Attributes int }
	Error *Error
}

// ErrIncomplete means that a stream ended before its last line.
var ErrIncomplete = errors.New("the export is incomplete: its connection ended")

// Export begins the export of the revision of a token, or of the newest one for "",
// after the first skip lines. The caller closes it.
func (s *Store) Export(ctx context.Context, token string, skip int) (*Export, error) {
	query := url.Values{}
	if token != "" {
		query.Set("token", token)
	}
	if skip > 0 {
		query.Set("skip", strconv.Itoa(skip))
	}
	resp, err := s.client.Open(ctx, http.MethodGet, s.Path("/export?"+query.Encode()), nil)
	if err != nil {
		return nil, err
	}
	return &Export{resp.Body, json.NewDecoder(resp.Body)}, nil
}

// Next returns the next line. It fails with [ErrIncomplete] if the stream ends without
// an end line, and with an [*Error] if the server failed.
func (x *Export) Next() (line Line, err error) {
	err = x.dec.Decode(&line)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return line, ErrIncomplete
	case err != nil:
		return line, fmt.Errorf("the export is incomplete: %w", err)
	case line.Error != nil:
		line.Error.Kind = door.ErrorOf(line.Error.Code)
		return line, line.Error
	}
	return line, nil
}

// Close ends the request.
func (x *Export) Close() error { return x.body.Close() }

// Event is an event of a watch: its JSON, and the token after which the next watch
// continues.
type Event struct {
	Token string
	Data  json.RawMessage
}

// Watch yields the events of a stream, "/watch" or "/watch-permission", until ctx ends
// or the server ends it. The last event that the server sends may be an [*Error].
func (s *Store) Watch(ctx context.Context, path string, query url.Values) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		resp, err := s.client.Open(ctx, http.MethodGet, s.Path(path+"?"+query.Encode()), nil)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer resp.Body.Close()
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, responseBytesMax)
		name, event := "", Event{}
		for in.Scan() {
			field, value, _ := strings.Cut(in.Text(), ": ")
			switch field {
			case "id":
				event.Token = value
			case "event":
				name = value
			case "data":
				event.Data = json.RawMessage(value)
				if name == "error" {
					yield(Event{}, streamError(event.Data))
					return
				}
				if !yield(event, nil) {
					return
				}
			}
		}
		if err := in.Err(); err != nil {
			yield(Event{}, err)
		}
	}
}

// streamError reads the error that ends a stream.
func streamError(data []byte) error {
	e := &Error{}
	if err := json.Unmarshal(data, e); err != nil {
		return err
	}
	e.Kind = door.ErrorOf(e.Code)
	return e
}
