package native

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
)

type entryJSON struct {
	Revision uint64       `json:"revision"`
	Time     time.Time    `json:"time"`
	Token    string       `json:"token"`
	Changes  []changeJSON `json:"changes"`
}

func entryOf(e *ostiary.ChangeEntry) entryJSON {
	out := entryJSON{uint64(e.Revision), e.Time, string(e.Token), make([]changeJSON, len(e.Changes))}
	for i := range e.Changes {
		out.Changes[i] = changeOf(&e.Changes[i])
	}
	return out
}

// changes reads a page of the log.
func (c *call) changes() error {
	var q ostiary.ChangesRequest
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "after":
			q.After = ostiary.Token(r.String())
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
		r.Fail("after and since exclude each other")
	}
	if err := r.End(); err != nil {
		return err
	}
	page, err := c.store.Changes(c.ctx, q)
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
	return c.json(out)
}

// afterOf reads where a watch begins: the parameter after, or what a client
// that lost its connection says it saw last. "" is the newest revision.
func (c *call) afterOf(after string) ostiary.Token {
	if last := c.r.Header.Get("Last-Event-ID"); last != "" {
		after = last
	}
	return ostiary.Token(after)
}

// watch sends the entries of the log as they come.
func (c *call) watch(w http.ResponseWriter) error {
	values, err := c.query("after", "types")
	if err != nil {
		return err
	}
	q := ostiary.WatchRequest{After: c.afterOf(values.Get("after"))}
	if types := values.Get("types"); types != "" {
		q.Types = strings.Split(types, ",")
	}
	if q.After == "" {
		// What is written from the moment of the answer's beginning on is sent.
		if q.After, err = c.store.Head(c.ctx); err != nil {
			return err
		}
	} else if _, err := c.store.Changes(c.ctx, ostiary.ChangesRequest{After: q.After, Limit: 1}); err != nil {
		return err
	}
	watch := func(ctx context.Context) iter.Seq2[ostiary.ChangeEntry, error] { return c.store.Watch(ctx, q) }
	return sendEvents(c.ctx, w, watch, func(e *ostiary.ChangeEntry) event {
		return event{id: string(e.Token), name: "entry", data: entryOf(e)}
	})
}

// event is a server-sent event.
type event struct {
	id, name string
	data     any
}

func (e *event) append(out []byte) ([]byte, error) {
	data, err := json.Marshal(e.data)
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
	// beat is how often a silent stream shows that it lives.
	beat = 15 * time.Second
	// writeTime is how long a watcher may take to read what is sent; then it is
	// gone.
	writeTime = 30 * time.Second
)

// sendEvents sends what a watch yields until the client goes or the watch
// ends, of which the last event tells. No writer waits for a client: the
// engine's watch holds what is not yet sent, up to its bound.
func sendEvents[E any](ctx context.Context, w http.ResponseWriter, watch func(context.Context) iter.Seq2[E, error], show func(*E) event) error {
	ctx, stop := context.WithCancel(ctx)
	items, ended := make(chan E), make(chan error, 1)
	var panicked any // set before items is closed
	go func() {
		defer close(items)
		defer func() { panicked = recover() }() // here it would end the process
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
		for range items { // until the goroutine has ended
		}
		if panicked != nil {
			panic(panicked) // the server knows what to do with a handler's
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
	silent := time.NewTicker(beat)
	defer silent.Stop()
	for {
		select {
		case e, more := <-items:
			if !more {
				s.end(ended)
				return nil
			}
			shown := show(&e)
			text, err := shown.append(s.buffer[:0])
			if s.buffer = text; err != nil || s.send(text) != nil {
				return nil
			}
		case <-silent.C:
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
	buffer  []byte
}

func (s *eventStream) send(text []byte) error {
	// A connection without deadlines (a test's recorder) has none to set.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

// end tells why a watch ended, if it was not the client.
func (s *eventStream) end(ended <-chan error) {
	select {
	case err := <-ended:
		last := event{name: "error", data: describe(err)}
		if text, bad := last.append(nil); bad == nil {
			_ = s.send(text) // the client may be gone; there is nobody else to tell
		}
	default:
	}
}
