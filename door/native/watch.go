package native

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// entryJSON is one entry of the log.
type entryJSON struct {
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
	Token    string    `json:"token"`
	OriginJSON
	Changes []changeJSON `json:"changes"`
}

// entryOf translates an entry.
func entryOf(e *authz.ChangeEntry) entryJSON {
	out := entryJSON{uint64(e.Revision), e.Time, string(e.Token), originOf(&e.Origin), make([]changeJSON, len(e.Changes))}
	for i := range e.Changes {
		out.Changes[i] = changeOf(&e.Changes[i])
	}
	return out
}

// changes serves Changes: a page of the log.
func (c *call) changes() error {
	var q authz.ChangesRequest
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "after":
			q.After = authz.Token(r.String())
		case "since":
			q.Since = readTime(r)
		case "limit":
			q.Limit = int(r.Int(1, 1<<30))
		case "types":
			q.Types = r.Strings()
		default:
			r.Unknown()
		}
	}
	if q.After != "" && !q.Since.IsZero() {
		r.Fail("expected either after or since")
	}
	if err := r.End(); err != nil {
		return err
	}
	page, err := c.store.Changes(c.Context(), q)
	if err != nil {
		return err
	}
	out := struct {
		Entries []entryJSON `json:"entries"`
		Next    string      `json:"next"`
		More    bool        `json:"more"`
	}{make([]entryJSON, len(page.Entries)), string(page.Next), page.More}
	for i := range page.Entries {
		out.Entries[i] = entryOf(&page.Entries[i])
	}
	return c.setJSON(out)
}

// startToken returns the token after which a watch starts. A client that
// reconnects sends it in Last-Event-ID; otherwise it is the parameter after. ""
// means the newest revision.
func (c *call) startToken(after string) authz.Token {
	if last := c.R.Header.Get("Last-Event-ID"); last != "" {
		after = last
	}
	return authz.Token(after)
}

// watch serves Watch: the entries of the log as they are written.
func (c *call) watch() error {
	values, err := c.QueryOf("after", "types")
	if err != nil {
		return err
	}
	q := authz.WatchRequest{After: c.startToken(values.Get("after"))}
	if types := values.Get("types"); types != "" {
		q.Types = strings.Split(types, ",")
	}
	if q.After == "" {
		// Without a start, the watch reports everything that is written after
		// the start of the response.
		if q.After, err = c.store.Head(c.Context()); err != nil {
			return err
		}
	} else if _, err := c.store.Changes(c.Context(), authz.ChangesRequest{After: q.After, Limit: 1}); err != nil {
		return err
	}
	watch := func(ctx context.Context) iter.Seq2[authz.ChangeEntry, error] { return c.store.Watch(ctx, q) }
	return sendEvents(c.Context(), c.W, watch, func(e *authz.ChangeEntry) event {
		return event{id: string(e.Token), name: "entry", size: len(e.Changes) * bytesPerChange, data: func() any { return entryOf(e) }}
	})
}

// bytesPerChange is about what an event keeps for each change, as structures and
// as text, in bytes.
const bytesPerChange = 512

// event is a server-sent event. data returns what is encoded as JSON, and size is
// about the memory for it and for its text, in bytes.
type event struct {
	id, name string
	size     int
	data     func() any
}

// appendTo appends the event's text.
func (e *event) appendTo(out []byte) ([]byte, error) {
	data, err := json.Marshal(e.data())
	if err != nil {
		return out, err
	}
	if e.id != "" {
		out = append(append(append(out, "id: "...), e.id...), '\n')
	}
	out = append(append(append(out, "event: "...), e.name...), "\ndata: "...)
	return append(append(out, data...), "\n\n"...), nil
}

const (
	// keepAliveInterval is the time after which an idle stream sends a comment.
	keepAliveInterval = 15 * time.Second
	// writeTimeout bounds one write to a client. A client that reads slower is
	// disconnected.
	writeTimeout = 30 * time.Second
)

// sendEvents sends what watch yields as events, until the client leaves or the
// watch ends. If the watch fails, the last event is an error. A slow client
// does not block writers: the engine's watch buffers what is not sent yet, up
// to its bound.
func sendEvents[E any](ctx context.Context, w http.ResponseWriter, watch func(context.Context) iter.Seq2[E, error], toEvent func(*E) event) error {
	ctx, stop := context.WithCancel(ctx)
	items, ended := make(chan E), make(chan error, 1)
	var panicked any // set before items is closed
	go func() {
		defer close(items)
		defer func() { panicked = recover() }() // an unrecovered panic here would end the process
		for e, err := range watch(ctx) {
			if err != nil {
				ended <- err
				return
			}
			select {
			case items <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		stop()
		for range items { // wait for the goroutine to end
		}
		if panicked != nil {
			panic(panicked) // the server recovers a handler's panic
		}
	}()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	s := eventStream{control: http.NewResponseController(w), w: w}
	if s.send([]byte(": watching\n\n")) != nil {
		return nil
	}
	idle := time.NewTicker(keepAliveInterval)
	defer idle.Stop()
	for {
		select {
		case e, more := <-items:
			if !more {
				s.end(ended)
				return nil
			}
			ev := toEvent(&e)
			if s.sendEvent(ctx, &ev) != nil {
				return nil
			}
		case <-idle.C:
			if s.send([]byte(": still here\n\n")) != nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// eventStream writes events to a client.
type eventStream struct {
	control *http.ResponseController
	w       http.ResponseWriter
	// buffer is reused for each event.
	buffer []byte
}

// send writes a text to the client, within writeTimeout.
func (s *eventStream) send(text []byte) error {
	// Ignore the error: a test's recorder has no deadlines.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

// bufferMax is the largest buffer that a stream keeps between events, in bytes.
const bufferMax = 16 << 10

// sendEvent sends an event. The memory for a large one is counted before it is
// used; if a bound does not allow it, the last event is an error.
func (s *eventStream) sendEvent(ctx context.Context, e *event) error {
	held := e.size > bufferMax
	if held {
		if err := door.AwaitHold(ctx, e.size); err != nil {
			ended := make(chan error, 1)
			ended <- err
			s.end(ended)
			return err
		}
	}
	text, err := e.appendTo(s.buffer[:0])
	if err == nil {
		err = s.send(text)
	}
	if s.buffer = text; cap(text) > bufferMax {
		s.buffer = nil
	}
	if held && err == nil {
		err = door.Hold(ctx, 0)
	}
	return err
}

// end sends the error that ended the watch, if there is one.
func (s *eventStream) end(ended <-chan error) {
	select {
	case err := <-ended:
		last := event{name: "error", data: func() any { return describe(err) }}
		if text, err := last.appendTo(nil); err == nil {
			_ = s.send(text) // the client may be gone
		}
	default:
	}
}
