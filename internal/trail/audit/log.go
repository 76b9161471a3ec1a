package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/internal/tool/printable"
)

// ErrClosed is returned by a log that is closed.
var ErrClosed = errors.New("the audit log is closed")

// ErrFull is returned if too many records wait for the output.
var ErrFull = errors.New("the audit log's buffer is full")

const (
	// QueueBytesDefault is the default of Options.QueueBytes.
	QueueBytesDefault = 16 << 20
	// HeadEveryDefault is the default of Options.HeadEvery.
	HeadEveryDefault = time.Minute
	// headLines is the number of lines after which one is signed in any case.
	headLines = 10_000
	// syncEvery is how often lines are made durable that no request waits for.
	syncEvery = time.Second
	// retryFirst and retryMax bound the wait before a failed output is tried again.
	retryFirst = 50 * time.Millisecond
	retryMax   = 5 * time.Second
	// closeWait is how long Close waits for an output that fails.
	closeWait = 5 * time.Second
)

// Options are the settings of a [Log].
type Options struct {
	// Key signs lines.
	Key ed25519.PrivateKey
	// Node is the name of this node in each signed line; it may be empty.
	Node string
	// Plain is true for a log whose lines are no chain: they have no number, no hash and
	// no signature, and Key is not needed.
	Plain bool
	// Name is in front of the number in the names of files; "" is "audit".
	Name string
	// Block makes [Log.Add] wait for room in the queue instead of losing the line.
	Block bool
	// Required makes [Log.Append] wait until a record is durable.
	Required bool
	// QueueBytes bounds the records that wait; 0 is 16 MiB.
	QueueBytes int
	// HeadEvery is the interval of signed lines; 0 is a minute.
	HeadEvery time.Duration
	// Failed is called when the output fails, and with nil when it works again. It may
	// be nil.
	Failed func(error)
	// Head is called with the head of the log when the log is opened, each hour, and when it
	// is closed, each time after the line of the head is durable. It may be nil.
	Head func(Head)
}

// output is where the lines of a log go. Only the goroutine of the log uses it.
type output interface {
	// write writes whole lines. After an error, none of them is there.
	write(lines []byte) error
	// sync makes durable what was written.
	sync() error
	// full reports whether the next line belongs into a new file.
	full() bool
	// next begins a new file whose first line has a number.
	next(number uint64) error
	// oldest is the number of the first line that is kept, and trim removes those before.
	oldest() uint64
	trim()
	close() error
}

// place is a place in a chain of lines.
type place struct {
	log    string // the random id of the log
	number uint64 // of the last line; 0 before the first
	hash   string // of the last line
	oldest uint64 // the number of the first line that is kept
	// closed is false if the last line is not of the kind end, and torn is how many bytes
	// follow it that are no line.
	closed bool
	torn   int64
}

// zeroHash is the hash before the first line.
const zeroHash = "0000000000000000000000000000000000000000000000000000000000000000"

// Log is a chain of lines on one output. Its methods may be called concurrently.
type Log struct {
	options Options
	out     output
	ended   chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	wake    *sync.Cond // waiting has records, or closing is set
	waiting []*entry
	bytes   int // of waiting
	lost    int // records that were lost since the last line
	since   time.Time
	until   time.Time
	total   uint64        // of lost records
	room    chan struct{} // closed when lines were written
	failure error         // of the output, nil while it works
	closing bool

	// The goroutine alone uses the rest.
	at       place
	begun    bool      // the first line of the file is written
	unsigned int       // lines after the last signed one
	signed   time.Time // of the last signed line
	dirty    bool      // written and not durable
	synced   time.Time
	reported time.Time // of the last head that was reported
	buffer   []byte
}

// entry is a record that waits for the output.
type entry struct {
	members []byte
	done    chan error // nil unless a request waits
}

// open begins or continues a chain. The first line is written before open returns.
func open(out output, at place, o Options) (*Log, error) {
	if o.QueueBytes <= 0 {
		o.QueueBytes = QueueBytesDefault
	}
	if o.HeadEvery <= 0 {
		o.HeadEvery = HeadEveryDefault
	}
	if at.log == "" && !o.Plain {
		var id [16]byte
		rand.Read(id[:])
		at.log, at.hash = hex.EncodeToString(id[:]), zeroHash
	}
	l := &Log{options: o, out: out, at: at, ended: make(chan struct{}), room: make(chan struct{})}
	l.wake = sync.NewCond(&l.mu)
	if err := l.begin("start"); err != nil {
		return nil, errors.Join(err, out.close())
	}
	l.report()
	go l.tick()
	go l.run()
	return l, nil
}

// Append adds a record to the log. If the log is required, Append waits until the record
// is durable, and fails if it cannot be now; the record stays in the queue nevertheless.
// Otherwise Append does not wait: a record that finds the queue full is lost and counted,
// and the next line has the number of lost ones.
func (l *Log) Append(r *Record) error {
	e := &entry{members: printable.JSON(r.append(make([]byte, 0, 512)))}
	l.mu.Lock()
	failure := l.failure
	var done chan error
	if l.options.Required && failure == nil {
		done = make(chan error, 1)
		e.done = done // finish sets e.done to nil
	}
	err := l.enqueue(e, r.Time)
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case done != nil:
		return <-done
	case l.options.Required:
		return failure
	}
	return nil
}

// Add adds a line with these members, each after a comma, to the log. It does not keep
// members. If the queue is full, Add waits until ctx ends, or does not wait, see
// [Options].Block. A line that finds no room is lost and counted, and Add returns [ErrFull],
// or [ErrClosed] once the log is closed.
func (l *Log) Add(ctx context.Context, members []byte) error {
	e := &entry{members: bytes.Clone(printable.JSON(members))}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.options.Block && !l.closing && !l.hasRoom(e) && ctx.Err() == nil {
		room := l.room
		l.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		l.mu.Lock()
	}
	return l.enqueue(e, time.Now())
}

// enqueue adds an entry to the queue, or counts it as lost at a time. l.mu is locked.
func (l *Log) enqueue(e *entry, at time.Time) error {
	switch {
	case l.closing:
		l.lose(at)
		return ErrClosed
	case !l.hasRoom(e):
		l.lose(at)
		return ErrFull
	}
	l.waiting = append(l.waiting, e)
	l.bytes += len(e.members)
	if len(l.waiting) == 1 { // otherwise the goroutine of the log does not wait
		l.wake.Broadcast()
	}
	return nil
}

// hasRoom reports whether the queue has room for an entry. l.mu is locked.
func (l *Log) hasRoom(e *entry) bool { return l.bytes+len(e.members) <= l.options.QueueBytes }

// lose counts a lost record.
func (l *Log) lose(at time.Time) {
	if l.lost == 0 {
		l.since = at
	}
	l.until = at
	l.lost++
	l.total++
}

// Lost returns how many records were lost.
func (l *Log) Lost() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Failure returns why the output does not work now, or nil.
func (l *Log) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// Close writes what waits and the last line, and closes the output. It returns an error
// if records stay unwritten.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		<-l.ended
		return nil
	}
	l.closing = true
	l.mu.Unlock()
	l.wake.Broadcast()
	<-l.ended
	l.mu.Lock()
	left := len(l.waiting) + l.lost
	l.mu.Unlock()
	err := l.out.close()
	if left > 0 {
		err = errors.Join(fmt.Errorf("%d records of the audit log were not written", left), err)
	}
	return err
}

// tick wakes the goroutine of the log for what is due without a record.
func (l *Log) tick() {
	t := time.NewTicker(min(syncEvery, l.options.HeadEvery))
	defer t.Stop()
	for {
		select {
		case <-t.C:
			l.wake.Broadcast()
		case <-l.ended:
			return
		}
	}
}

// run writes what waits until the log is closed.
func (l *Log) run() {
	defer close(l.ended)
	retry, closeBy := time.Duration(0), time.Time{}
	for {
		batch, loss, closing := l.take()
		err := l.put(batch, loss)
		if err == nil && closing {
			if err = l.end("stop"); err == nil {
				l.report()
			}
		}
		l.finish(batch, err)
		if err == nil {
			retry = 0
			if closing {
				return
			}
			continue
		}
		if closing {
			if closeBy.IsZero() {
				closeBy = time.Now().Add(closeWait)
			}
			if time.Now().After(closeBy) {
				return
			}
		}
		retry = min(max(2*retry, retryFirst), retryMax)
		l.pause(retry)
	}
}

// pause waits, but only a short time while the log is being closed.
func (l *Log) pause(d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		time.Sleep(min(retryFirst, d))
		l.mu.Lock()
		closing := l.closing
		l.mu.Unlock()
		if closing {
			return
		}
	}
}

// beforeRotation is what comes after the last line of a file that another one follows.
const beforeRotation = "rotation"

// loss is how many records were lost, and when.
type loss struct {
	n            int
	since, until time.Time
}

// take waits for records, or for the time of a signed line or of a sync.
func (l *Log) take() (batch []*entry, lost loss, closing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 && l.lost == 0 && !l.closing && !l.due() {
		l.wake.Wait()
	}
	return l.waiting, loss{l.lost, l.since, l.until}, l.closing
}

// due reports whether a signed line or a sync is due.
func (l *Log) due() bool {
	now := time.Now()
	return l.unsigned > 0 && !l.options.Plain && now.Sub(l.signed) >= l.options.HeadEvery || l.dirty && now.Sub(l.synced) >= syncEvery || l.reports() && now.Sub(l.reported) >= headEvery
}

// reports reports whether the log reports its heads.
func (l *Log) reports() bool { return l.options.Head != nil && !l.options.Plain }

// report reports the head of the log, whose lines are durable.
func (l *Log) report() {
	if !l.reports() {
		return
	}
	h := Head{Name: cmp.Or(l.options.Name, nameDefault), Log: l.at.log, Number: l.at.number, Hash: l.at.hash}
	h.sign(l.options.Key)
	l.reported = time.Now()
	l.options.Head(h)
}

// put writes a batch, with signed lines and a new file where they are due.
func (l *Log) put(batch []*entry, lost loss) error {
	if l.begun && l.out.full() {
		if err := l.end(beforeRotation); err != nil {
			return err
		}
		l.begun = false
	}
	if !l.begun {
		if err := l.begin(beforeRotation); err != nil {
			return err
		}
	}
	at := l.at
	b := l.buffer[:0]
	if lost.n > 0 {
		r := Record{Time: lost.since, Kind: KindLost, Count: lost.n, Until: lost.until}
		b = l.line(b, &at, r.append(nil))
	}
	for _, e := range batch {
		b = l.line(b, &at, e.members)
	}
	lines := len(batch)
	if lost.n > 0 {
		lines++
	}
	now := time.Now()
	sign := l.unsigned+lines >= headLines || l.unsigned+lines > 0 && now.Sub(l.signed) >= l.options.HeadEvery
	if sign = sign && !l.options.Plain; sign {
		b = l.head(b, &at, KindHead, "")
	}
	l.buffer = b
	if len(b) > 0 {
		if err := l.out.write(b); err != nil {
			return err
		}
		l.at, l.dirty = at, true
		if l.unsigned += lines; sign {
			l.unsigned, l.signed = 0, now
		}
		if cap(l.buffer) > QueueBytesDefault/4 {
			l.buffer = nil
		}
		l.written(len(batch), lost.n)
	}
	head := l.reports() && now.Sub(l.reported) >= headEvery
	if l.dirty && (l.options.Required || head || now.Sub(l.synced) >= syncEvery) {
		if err := l.out.sync(); err != nil {
			return err
		}
		l.dirty, l.synced = false, now
	}
	if head {
		l.report()
	}
	return nil
}

// written removes what was written from the queue.
func (l *Log) written(n, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.waiting[:n] {
		l.bytes -= len(e.members)
	}
	l.waiting = append([]*entry(nil), l.waiting[n:]...)
	l.lost -= lost
	close(l.room)
	l.room = make(chan struct{})
}

// finish wakes the callers that wait for a batch, and notes whether the output works.
func (l *Log) finish(batch []*entry, err error) {
	l.mu.Lock()
	changed := (l.failure == nil) != (err == nil)
	l.failure = err
	all := batch
	if err != nil {
		all = append(append([]*entry(nil), batch...), l.waiting...)
	}
	for _, e := range all {
		if e.done != nil {
			e.done <- err
			e.done = nil
		}
	}
	l.mu.Unlock()
	if changed && l.options.Failed != nil {
		l.options.Failed(err)
	}
}

// begin begins a file.
func (l *Log) begin(after string) error {
	if err := l.out.next(l.at.number + 1); err != nil {
		return err
	}
	at := l.at
	if l.options.Plain {
		at.number++
	} else if err := l.out.write(l.head(nil, &at, KindBegin, after)); err != nil {
		return err
	}
	if err := l.out.sync(); err != nil {
		return err
	}
	l.at, l.begun, l.unsigned, l.signed, l.dirty = at, true, 0, time.Now(), false
	l.synced = l.signed
	l.out.trim()
	return nil
}

// end ends a file, unless its last line has ended it already.
func (l *Log) end(before string) error {
	if l.at.closed {
		return nil
	}
	at := l.at
	if l.options.Plain {
		return l.out.sync()
	} else if err := l.out.write(l.head(nil, &at, KindEnd, before)); err != nil {
		return err
	}
	if err := l.out.sync(); err != nil {
		return err
	}
	l.at, l.dirty = at, false
	return nil
}

// head appends a signed line. why is what came before a file, or comes after it.
func (l *Log) head(b []byte, at *place, kind Kind, why string) []byte {
	m := append(time.Now().UTC().AppendFormat(append(make([]byte, 0, 512), `,"time":"`...), timeForm), '"')
	m = text(m, "kind", string(kind))
	m = text(m, "log", at.log)
	m = text(m, "node", l.options.Node)
	switch kind {
	case KindBegin:
		m = text(m, "after", why)
		m = strconv.AppendUint(append(m, `,"oldest":`...), l.out.oldest(), 10)
		if at.number > 0 && !at.closed {
			m = append(m, `,"unclosed":true`...)
		}
		if at.torn > 0 {
			m = strconv.AppendInt(append(m, `,"torn":`...), at.torn, 10)
		}
	case KindEnd:
		m = text(m, "before", why)
	}
	b = at.line(b, m, l.options.Key)
	at.closed, at.torn = kind == KindEnd, 0
	return b
}

// line appends a line with these members.
func (l *Log) line(b []byte, at *place, members []byte) []byte {
	if l.options.Plain {
		return append(append(append(b, '{'), members[1:]...), "}\n"...)
	}
	return at.line(b, members, nil)
}

// signedPrefix is what is signed in front of a line, so that a signature of the key for
// another purpose is none of a line.
const signedPrefix = "ostiary audit log\n"

// line appends a line with these members, and makes it the last one. It is signed if key
// is not nil.
func (at *place) line(b, members []byte, key ed25519.PrivateKey) []byte {
	from := len(b)
	at.number++
	b = strconv.AppendUint(append(b, `{"number":`...), at.number, 10)
	b = append(b, members...)
	b = jsonread.AppendString(append(b, `,"prev":`...), at.hash)
	if key != nil {
		s := ed25519.Sign(key, append([]byte(signedPrefix), b[from:]...))
		b = append(base64.StdEncoding.AppendEncode(append(b, `,"signature":"`...), s), '"')
	}
	sum := sha256.Sum256(b[from:])
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	at.hash, at.closed = string(digits[:]), false
	b = append(append(b, hashMember...), digits[:]...)
	return append(b, `"}`+"\n"...)
}

// hashMember is in front of the hash of a line.
const hashMember = `,"hash":"`
