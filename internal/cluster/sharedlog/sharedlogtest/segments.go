package sharedlogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

func segmentCases() []testcase {
	return []testcase{
		{"append", "Append adds a segment after the last one, and every connection sees it at once.", appendSegments},
		{"append/conflict", "Append after another position than the last one fails with a conflict that has the last position, and changes nothing.", appendConflict},
		{"append/ahead", "Appends that are begun one after the other, before the first one is answered, are all made; if one is refused, so are those that follow it.", appendAhead},
		{"append/race", "If several connections append after one position, exactly one succeeds.", appendRace},
		{"append/parts", "A segment of SegmentBytesMax is stored completely; a larger one fails with ErrTooLarge.", appendLarge},
		{"append/memory", "The log keeps no reference to the bytes of a segment.", appendMemory},
		{"append/lost answers", "However calls are canceled, Commit settles each segment: it is in the log exactly if Commit returns nil.", lostAnswers},
		{"barrier", "Once a barrier is in the log, an earlier attempt to put another segment in its place can no longer succeed.", barrier},
		{"wait", "Wait returns when the log has a segment above a sequence, and when the context ends.", waits},
		{"trim", "Trim drops the segments below a sequence, never the last one; reading from a dropped one fails with ErrTrimmed.", trim},
		{"restore", "A log that has lost its end goes on after the position at which it is restored, if nothing else was appended.", restore},
		{"restore/new", "A log that has nothing can be restored.", restoreNew},
		{"context", "A call whose context has ended returns the context's error.", contextEnds},
		{"closed", "After Close every method fails with ErrClosed; other connections work.", closedLog},
	}
}

func appendSegments(k *kit) {
	other := k.connect()
	head, err := k.Head(k.ctx)
	k.ok(err)
	k.check(head == sharedlog.Position{}, "the head of an empty log is %s", head)
	all := k.append(3)
	head, err = other.Head(k.ctx)
	k.ok(err)
	k.check(head == all[3], "another connection has the head %s, want %s", head, all[3])
	for from := uint64(0); from <= 5; from++ {
		rows, err := read(k.ctx, other, from)
		k.ok(err)
		first := max(from, 1)
		k.check(len(rows) == max(0, 4-int(first)), "reading from %d yields %d segments", from, len(rows))
		for i, r := range rows {
			at := first + uint64(i)
			k.check(r.Position == all[at] && bytes.Equal(r.Bytes, record(all[at-1], 1).Bytes), "segment %d is %s, want %s", i, r.Position, all[at])
		}
	}
	for range k.Read(k.ctx, 1) {
		break
	}
	n := 0
	for v, err := range sharedlog.Segments(k.ctx, other, all[1], 0) {
		k.ok(err)
		n++
		k.check(v.Segment.Writer == storage.NodeID{1}, "the writer is %s", v.Segment.Writer)
	}
	k.check(n == 2, "%d segments follow the first one, want 2", n)
}

func appendConflict(k *kit) {
	all := k.append(2)
	for _, after := range []sharedlog.Position{{}, all[1], {Sequence: 2, Hash: storage.Hash{1}}, {Sequence: 3}, {Sequence: 9, Hash: all[2].Hash}} {
		k.conflict(k.Append(k.ctx, after, record(after, 2), []sharedlog.SecretChange{secretChange("key", "a")}), all[2])
	}
	gap := record(sharedlog.Position{Sequence: 3}, 2) // a record that does not have the next sequence
	k.conflict(k.Append(k.ctx, all[2], gap, nil), all[2])
	rows, err := read(k.ctx, k.Log, 1)
	k.ok(err)
	k.check(len(rows) == 2, "the log has %d segments, want 2", len(rows))
	_, err = k.Secret(k.ctx, secretKey("key"), digest("a"))
	k.is(err, sharedlog.ErrNoSecret)
}

func appendAhead(k *kit) {
	other := k.connect()
	at := k.append(1)[1]
	for range 3 {
		for ordered, tries := false, 0; !ordered && tries < 50; tries++ { // the first ones may open a connection
			if at, ordered = k.ahead(at, 1); !ordered {
				time.Sleep(2 * time.Millisecond)
			}
		}
		at, _ = k.ahead(at, 20)
		head, err := other.Head(k.ctx)
		k.ok(err)
		k.check(head == at, "the head is %s, want %s", head, at)
		_, err = other.Secret(k.ctx, secretKey(fmt.Sprint(at.Sequence)), digest("a"))
		k.ok(err)

		foreign := record(at, 2)
		k.ok(other.Append(k.ctx, at, foreign, nil))
		var settle []func() error
		for range 3 {
			r, after := record(at, 1), at
			outcome, ordered := sharedlog.BeginAppend(k.ctx, k.Log, after, r, nil)
			if !ordered {
				err := outcome()
				outcome = func() error { return err }
			}
			settle = append(settle, func() error { return sharedlog.Settle(k.ctx, k.Log, after, r, nil, outcome()) })
			at = r.Position
		}
		for _, outcome := range settle {
			k.conflict(outcome(), foreign.Position)
		}
		at = foreign.Position
	}
	n, err := k.segments(sharedlog.Position{})
	k.ok(err)
	k.check(uint64(n) == at.Sequence, "the log has %d segments, want %d", n, at.Sequence)
}

// ahead begins n appends, each with a secret, and requires that all are made. It returns the
// last position, and whether one was begun before another one was answered.
func (k *kit) ahead(at sharedlog.Position, n int) (last sharedlog.Position, ordered bool) {
	var outcomes []func() error
	for range n {
		r := record(at, 1)
		outcome, in := sharedlog.BeginAppend(k.ctx, k.Log, at, r, []sharedlog.SecretChange{secretChange(fmt.Sprint(r.Sequence), "a")})
		if !in {
			err := outcome()
			outcome = func() error { return err }
		}
		outcomes, ordered, at = append(outcomes, outcome), ordered || in, r.Position
	}
	for _, outcome := range outcomes {
		k.ok(outcome())
	}
	return at, ordered
}

func appendRace(k *kit) {
	const writers, each = 4, 10
	won := make([]int, writers)
	var group sync.WaitGroup
	logs := make([]sharedlog.Log, writers)
	for w := range logs { // before the first writer starts, so that none runs when this fails
		logs[w] = k.connect()
	}
	for w, l := range logs {
		group.Go(func() {
			for won[w] < each {
				head, err := l.Head(k.ctx)
				if err == nil {
					err = l.Append(k.ctx, head, record(head, byte(w+1)), nil)
				}
				var c *sharedlog.ConflictError
				if err == nil {
					won[w]++
				} else if !errors.As(err, &c) {
					k.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	group.Wait()
	found := make([]int, writers)
	n := 0
	for v, err := range sharedlog.Segments(k.ctx, k.Log, sharedlog.Position{}, 0) {
		k.ok(err)
		n++
		found[v.Segment.Writer[0]-1]++
	}
	for w := range writers {
		k.check(found[w] == won[w], "writer %d has %d segments in the log, but %d successes", w, found[w], won[w])
	}
	k.check(n == writers*each, "the log has %d segments", n)
}

func appendLarge(k *kit) {
	var after sharedlog.Position
	for _, size := range []int{0, 1, sharedlog.PartBytesMax - 1, sharedlog.PartBytesMax, sharedlog.PartBytesMax + 1, 2 * sharedlog.PartBytesMax, sharedlog.SegmentBytesMax} {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i >> 3)
		}
		r := bytesRecord(after, b)
		k.ok(k.Append(k.ctx, after, r, nil))
		rows, err := read(k.ctx, k.Log, r.Sequence)
		k.ok(err)
		k.check(len(rows) == 1 && rows[0].Position == r.Position && bytes.Equal(rows[0].Bytes, b), "a segment of %d bytes is not read as it was appended", size)
		after = r.Position
	}
	k.is(k.Append(k.ctx, after, bytesRecord(after, make([]byte, sharedlog.SegmentBytesMax+1)), nil), storage.ErrTooLarge)
	head, err := k.Head(k.ctx)
	k.ok(err)
	k.check(head == after, "the head moved to %s", head)
}

func appendMemory(k *kit) {
	c := secretChange("key", "a")
	r := record(sharedlog.Position{}, 1)
	want := bytes.Clone(r.Bytes)
	k.ok(k.Append(k.ctx, sharedlog.Position{}, r, []sharedlog.SecretChange{c}))
	r.Bytes[20]++
	c.Body[0]++
	rows, err := read(k.ctx, k.Log, 1)
	k.ok(err)
	k.check(bytes.Equal(rows[0].Bytes, want), "the segment changed with the memory of the caller")
	body, err := k.Secret(k.ctx, c.SecretKey, c.Digest)
	k.ok(err)
	k.check(string(body) == "a", "the secret is %q, want %q", body, "a")
}

// lostAnswers cancels calls at random times. A call then fails although the log may
// have made the change.
func lostAnswers(k *kit) {
	const writers, each = 3, 20
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	pause := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.IntN(300)) * time.Microsecond
	}
	made := make([]map[storage.Hash]bool, writers)
	var group sync.WaitGroup
	logs := make([]sharedlog.Log, writers)
	for w := range logs { // before the first writer starts, so that none runs when this fails
		logs[w] = k.connect()
	}
	for w, l := range logs {
		made[w] = map[storage.Hash]bool{}
		group.Go(func() {
			for range each {
				head, err := l.Head(k.ctx)
				if err != nil {
					k.Errorf("head: %v", err)
					return
				}
				r := record(head, byte(w+1))
				canceled, cancel := context.WithTimeout(k.ctx, pause())
				err = l.Append(canceled, head, r, nil)
				cancel()
				if err != nil { // the outcome may be open
					err = sharedlog.Commit(k.ctx, l, head, r, nil)
				}
				var c *sharedlog.ConflictError
				if err == nil {
					made[w][r.Hash] = true
				} else if !errors.As(err, &c) {
					k.Errorf("commit: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	all := 0
	for w := range writers {
		all += len(made[w])
	}
	n := 0
	for v, err := range sharedlog.Segments(k.ctx, k.Log, sharedlog.Position{}, 0) {
		k.ok(err)
		n++
		k.check(made[v.Segment.Writer[0]-1][v.Hash], "segment %d is in the log, but Commit returned a conflict", v.Sequence)
	}
	k.check(n == all && n > 0, "the log has %d segments, but %d were reported as made", n, all)
}

func barrier(k *kit) {
	all := k.append(1)
	paused := record(all[1], 1) // a segment whose append does not reach the log for a while
	other := k.connect()
	b := sharedlog.Segment{Sequence: 2, Previous: all[1].Hash, Epoch: 1, Writer: storage.NodeID{2}}
	r, err := b.Record()
	k.ok(err)
	k.ok(sharedlog.Commit(k.ctx, other, all[1], r, nil))
	k.conflict(k.Append(k.ctx, all[1], paused, nil), r.Position)
	k.conflict(sharedlog.Commit(k.ctx, k.Log, all[1], paused, nil), r.Position)
	k.ok(sharedlog.Commit(k.ctx, other, all[1], r, nil)) // again, as after a lost answer
	next := record(r.Position, 2)
	k.ok(k.Append(k.ctx, r.Position, next, nil))
	k.ok(sharedlog.Commit(k.ctx, other, all[1], r, nil)) // although another one follows
	k.conflict(sharedlog.Commit(k.ctx, k.Log, all[1], paused, nil), next.Position)
	k.ok(k.Trim(k.ctx, next.Sequence))
	for _, gone := range []sharedlog.Record{r, paused} { // one was made, and nothing knows it any more
		err := sharedlog.Commit(k.ctx, other, all[1], gone, nil)
		k.is(err, storage.ErrUncertain)
		k.is(err, sharedlog.ErrTrimmed)
	}
}

func waits(k *kit) {
	all := k.append(2)
	k.ok(k.Wait(k.ctx, 0))
	k.ok(k.Wait(k.ctx, 1))
	other := k.connect()
	done := make(chan error, 1)
	go func() {
		for { // Wait may return early
			err := other.Wait(k.ctx, 2)
			head, failed := other.Head(k.ctx)
			if err != nil || failed != nil || head.Sequence > 2 {
				done <- errors.Join(err, failed)
				return
			}
		}
	}()
	select {
	case err := <-done:
		k.Fatalf("Wait returned before there was a segment; error %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	k.ok(k.Append(k.ctx, all[2], record(all[2], 1), nil))
	k.ok(<-done)
	ending, cancel := context.WithTimeout(k.ctx, 20*time.Millisecond)
	defer cancel()
	var err error
	for err == nil {
		err = k.Wait(ending, 3)
	}
	k.is(err, context.DeadlineExceeded)
}

func trim(k *kit) {
	all := k.append(5)
	k.ok(k.Trim(k.ctx, 0))
	k.ok(k.Trim(k.ctx, 3))
	k.ok(k.Trim(k.ctx, 2))
	for from, want := range map[uint64]int{3: 3, 4: 2, 5: 1, 6: 0} {
		rows, err := read(k.ctx, k.Log, from)
		k.ok(err)
		k.check(len(rows) == want, "reading from %d yields %d segments, want %d", from, len(rows), want)
	}
	for _, from := range []uint64{0, 1, 2} {
		_, err := read(k.ctx, k.Log, from)
		k.is(err, sharedlog.ErrTrimmed)
	}
	k.ok(k.Trim(k.ctx, 99))
	head, err := k.Head(k.ctx)
	k.ok(err)
	k.check(head == all[5], "the head is %s after trimming, want %s", head, all[5])
	k.append(1)
	rows, err := read(k.ctx, k.connect(), 5)
	k.ok(err)
	k.check(len(rows) == 2, "after trimming all but the last segment and appending one there are %d, want 2", len(rows))
	for _, err := range sharedlog.Segments(k.ctx, k.Log, all[1], 0) {
		k.is(err, sharedlog.ErrTrimmed)
	}
}

func contextEnds(k *kit) {
	all := k.append(2)
	ended, cancel := context.WithCancel(k.ctx)
	cancel()
	k.is(k.Append(ended, all[2], record(all[2], 1), nil), context.Canceled)
	_, err := k.Head(ended)
	k.is(err, context.Canceled)
	_, err = read(ended, k.Log, 1)
	k.is(err, context.Canceled)
	k.is(k.Wait(ended, 2), context.Canceled)
	running, cancel := context.WithCancel(k.ctx)
	defer cancel()
	for _, err = range k.Read(running, 1) {
		cancel()
	}
	k.is(err, context.Canceled)
}

func closedLog(k *kit) {
	k.append(1)
	l := k.connect()
	waiting := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			err = l.Wait(k.ctx, 1)
		}
		waiting <- err
	}()
	k.ok(l.Close())
	k.ok(l.Close())
	k.is(<-waiting, storage.ErrClosed)
	_, err := l.Cluster(k.ctx)
	k.is(err, storage.ErrClosed)
	k.is(l.SwapCluster(k.ctx, sharedlog.Cluster{}, sharedlog.Cluster{}), storage.ErrClosed)
	_, err = l.Head(k.ctx)
	k.is(err, storage.ErrClosed)
	k.is(l.Append(k.ctx, sharedlog.Position{}, record(sharedlog.Position{}, 1), nil), storage.ErrClosed)
	_, err = read(k.ctx, l, 1)
	k.is(err, storage.ErrClosed)
	k.is(l.Trim(k.ctx, 1), storage.ErrClosed)
	_, err = l.Secret(k.ctx, secretKey("key"), digest("a"))
	k.is(err, storage.ErrClosed)
	_, err = l.Lease(k.ctx)
	k.is(err, storage.ErrClosed)
	k.is(l.SwapLease(k.ctx, sharedlog.Lease{}, sharedlog.Lease{Holder: storage.NodeID{1}, Epoch: 1}), storage.ErrClosed)
	k.is(l.Register(k.ctx, sharedlog.NodeRecord{}), storage.ErrClosed)
	k.is(l.Report(k.ctx, sharedlog.NodeRecord{}), storage.ErrClosed)
	k.is(l.Forget(k.ctx, storage.NodeID{}), storage.ErrClosed)
	_, _, err = l.Nodes(k.ctx)
	k.is(err, storage.ErrClosed)
	k.is(l.PutSnapshot(k.ctx, sharedlog.Position{}, parts()), storage.ErrClosed)
	_, _, err = l.Snapshot(k.ctx)
	k.is(err, storage.ErrClosed)
	k.append(1)
}
