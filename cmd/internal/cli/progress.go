package cli

import (
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/tool/printable"
	"github.com/ostiary/ostiary/rel"
)

// progressEvery is the shortest pause between two updates of a progress line.
const progressEvery = 100 * time.Millisecond

// ProgressLine shows the progress of long work on the last line of a terminal. It
// has one line at a time: a new title replaces the line before. A nil
// *ProgressLine shows nothing. It is safe for concurrent use.
type ProgressLine struct {
	w   io.Writer
	now func() time.Time

	mu      sync.Mutex
	title   string
	updated time.Time
	columns int // of the line on the terminal
}

// Progress returns a progress line, or nil if stderr is not a terminal.
func (a *App) Progress() *ProgressLine {
	if !a.terminal() {
		return nil
	}
	return &ProgressLine{w: a.Err, now: time.Now}
}

// Show updates the line. A total of 0 means that it is unknown. Callers that do
// work do not wait: an update is dropped if another one is in progress or if the
// last one is recent, except for a new title.
func (p *ProgressLine) Show(title string, done, total int) {
	if p == nil || !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	now := p.now()
	if title == p.title && now.Sub(p.updated) < progressEvery {
		return
	}
	p.title, p.updated = title, now
	text := title
	if total > 0 {
		text += fmt.Sprintf(", %d %%", min(100, done*100/total))
	} else if done > 0 {
		text += fmt.Sprintf(", %d done", done)
	}
	p.write(text)
}

// End removes the line.
func (p *ProgressLine) End() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.columns > 0 {
		p.write("")
		fmt.Fprint(p.w, "\r")
	}
}

// write replaces the text on the terminal.
func (p *ProgressLine) write(text string) {
	text = printable.Text(text)
	columns := len([]rune(text))
	fmt.Fprint(p.w, "\r"+text+strings.Repeat(" ", max(0, p.columns-columns)))
	p.columns = columns
}

// waitUpdate is the interval at which [ProgressLine.wait] updates the line. Work
// that is shorter shows nothing.
const waitUpdate = time.Second

// wait shows the title, and for how long the work takes already, until the caller
// calls end.
func (p *ProgressLine) wait(title string) (end func()) {
	if p == nil {
		return func() {}
	}
	tick := time.NewTicker(waitUpdate)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for seconds := 1; ; seconds++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				p.Show(fmt.Sprintf("%s, %d s", title, seconds), 0, 0)
			}
		}
	}()
	return func() {
		tick.Stop()
		close(stop)
		<-done
		p.End()
	}
}

// Count returns a sequence that shows how many tuples were read.
func (p *ProgressLine) Count(tuples iter.Seq2[rel.Tuple, error], title string) iter.Seq2[rel.Tuple, error] {
	if p == nil {
		return tuples
	}
	return func(yield func(rel.Tuple, error) bool) {
		n := 0
		for t, err := range tuples {
			if err == nil {
				n++
				p.Show(title, n, 0)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// reader returns a reader of r that shows how much of size bytes was read.
func (p *ProgressLine) reader(r io.Reader, title string, size int64) io.Reader {
	if p == nil {
		return r
	}
	return &progressReader{r, p, title, 0, size}
}

type progressReader struct {
	io.Reader
	line       *ProgressLine
	title      string
	read, size int64
}

func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.read += int64(n)
	r.line.Show(r.title, int(r.read>>10), int(r.size>>10))
	return n, err
}
