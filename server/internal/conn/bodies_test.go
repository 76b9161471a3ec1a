package conn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/door"
)

// TestBodiesMakeRoom checks that a new body waits until the request of a closed
// connection has ended, because its memory is in use until then, and for bodyWait at
// most. Bodies that were closed for others make room once. One that has arrived is not
// closed.
func TestBodiesMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewConnections(Bounds{Max: 10, PerAddress: 10})
		b := &BodiesBudget{Name: "BodyBytesTotal", Max: 400, PerConnection: 300}
		arrived := b.NewCharge(NewDetached(all))
		if why := arrived.Add(100); why != nil {
			t.Fatal(why)
		}
		arrived.Whole()
		var old [3]Charge
		for i := range old {
			old[i] = b.NewCharge(NewDetached(all))
			if why := old[i].Add(100); why != nil {
				t.Fatal(why)
			}
		}
		own := b.NewCharge(old[0].conn)
		if why := own.Add(1); why == nil || why.Bound != "BodyBytesTotal" || why.Limit != 400 || why.Reason != door.TooMany {
			t.Error(why)
		}
		time.Sleep(stalledAfter - 1)
		added := b.NewCharge(NewDetached(all))
		if why := added.Add(150); why == nil || b.closing != 0 {
			t.Error("a connection is closed for its body before it is stalled")
		}
		time.Sleep(1)
		if why := own.Add(1); why == nil || b.closing != 0 {
			t.Error("a connection is closed for its own body")
		}
		got := make(chan *door.Refusal, 1)
		waits := func(closing, total int64) {
			t.Helper()
			synctest.Wait()
			if len(got) > 0 || b.closing != closing || b.total != total {
				t.Fatalf("%d results, %d of %d bytes are closing, expected 0, %d of %d", len(got), b.closing, b.total, closing, total)
			}
		}
		begin := time.Now()
		go func() { got <- added.Add(150) }()
		waits(200, 400) // two connections are closed, the third stays
		for i, open := range []bool{false, false, true} {
			if old[i].conn.gone == open {
				t.Errorf("connection %d: closed is %v", i, old[i].conn.gone)
			}
		}
		if arrived.conn.gone {
			t.Error("the connection whose body has arrived is closed")
		}
		if why := old[0].Add(0); why != nil { // the request of a closed connection may still charge
			t.Error(why)
		}
		old[0].Release()
		waits(100, 300)
		old[1].Release()
		if why := <-got; why != nil || time.Since(begin) != 0 {
			t.Fatal(why, time.Since(begin))
		}
		if b.Held() != 350 || b.closing != 0 {
			t.Error(b.Held(), b.closing)
		}
		// The third connection is closed, but its request does not end.
		late := b.NewCharge(NewDetached(all))
		go func() { got <- late.Add(100) }()
		time.Sleep(bodyWait - 1)
		waits(100, 350)
		if why := <-got; why == nil || why.Error() != "the server has too many requests: the bound BodyBytesTotal is 400" || time.Since(begin) != bodyWait {
			t.Error(why, time.Since(begin))
		}
		old[2].Release()
		arrived.Release()
		added.Release()
		late.Release()
		if b.Held() != 0 || b.closing != 0 || b.oldest != nil || b.newest != nil {
			t.Error(b.Held(), b.closing, b.oldest, b.newest)
		}
	})
}

// TestCharges adds and releases charges in every order of three, up to the bounds.
func TestCharges(t *testing.T) {
	t.Parallel()
	all := NewConnections(Bounds{Max: 10, PerAddress: 10})
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		b := &BodiesBudget{Name: "BodyBytesTotal", Max: 60, PerConnection: 30}
		one, two := NewDetached(all), NewDetached(all)
		charges := []Charge{b.NewCharge(one), b.NewCharge(two), b.NewCharge(two)}
		for i, n := range []int64{30, 20, 10} {
			if why := charges[i].Add(n - 1); why != nil {
				t.Fatal(why)
			}
			if why := charges[i].Add(1); why != nil {
				t.Fatal(why)
			}
		}
		for i := range charges {
			if why := charges[i].Add(1); why == nil || why.Error() != "the server has too many requests: the bound BodyBytesPerConnection is 30" {
				t.Error(why)
			}
		}
		// The list has the charges from the oldest to the newest, whichever are left.
		left := []*Charge{&charges[0], &charges[1], &charges[2]}
		for _, i := range order {
			charges[i].Release()
			charges[i].Release() // again does nothing
			left[i] = nil
			var want, forward, backward []*Charge
			sums := map[*Conn]int64{}
			for _, ch := range left {
				if ch != nil {
					want = append(want, ch)
					sums[ch.conn] += ch.bytes
				}
			}
			for ch := b.oldest; ch != nil; ch = ch.next {
				forward = append(forward, ch)
			}
			for ch := b.newest; ch != nil; ch = ch.prev {
				backward = append([]*Charge{ch}, backward...)
			}
			if fmt.Sprint(forward) != fmt.Sprint(want) || fmt.Sprint(backward) != fmt.Sprint(want) || b.Held() != sums[one]+sums[two] || one.bodies.Load() != sums[one] || two.bodies.Load() != sums[two] {
				t.Errorf("order %v, after %d: %v, %v, expected %v; %d, %d, %d bytes, expected %v", order, i, forward, backward, want, b.Held(), one.bodies.Load(), two.bodies.Load(), sums)
			}
		}
	}
}

// TestChargedBody reads a body of unknown length in parts of several sizes. The first
// bodyFree bytes are free; then at least bodyFree are charged at once, before they are
// read.
func TestChargedBody(t *testing.T) {
	t.Parallel()
	all := NewConnections(Bounds{Max: 10, PerAddress: 10})
	for _, c := range []struct {
		parts   []int
		charged []int64
	}{
		{[]int{BodyFree, 1, BodyFree - 1, 1}, []int64{0, BodyFree, BodyFree, 2 * BodyFree}},
		{[]int{BodyFree + 1}, []int64{BodyFree}},
		{[]int{3 * BodyFree, BodyFree}, []int64{2 * BodyFree, 3 * BodyFree}},
	} {
		b := &BodiesBudget{Name: "BodyBytesTotal", Max: 3 * BodyFree, PerConnection: 3 * BodyFree}
		ch := b.NewCharge(NewDetached(all))
		body := &chargedBody{ReadCloser: io.NopCloser(bytes.NewReader(make([]byte, 10*BodyFree))), charge: &ch, paid: BodyFree}
		for i, n := range c.parts {
			if got, err := body.Read(make([]byte, n)); got != n || err != nil || b.Held() != c.charged[i] {
				t.Errorf("%v: part %d: %d bytes, %v, %d charged, expected %d", c.parts, i, got, err, b.Held(), c.charged[i])
			}
		}
		n, err := body.Read(make([]byte, 5*BodyFree))
		var why *door.Refusal
		if n != 0 || !errors.As(err, &why) || !strings.Contains(err.Error(), "BodyBytesPerConnection") {
			t.Errorf("above the bound: %d bytes, %v", n, err)
		}
	}
}

// TestUnknownLength reads bodies of unknown length in parts. Some
// bytes are free.
func TestUnknownLength(t *testing.T) {
	t.Parallel()
	for free, want := range map[int64][]int64{BodyFree: {0, 0, BodyFree, 2 * BodyFree}, 0: {BodyFree, BodyFree, 2 * BodyFree, 3 * BodyFree}} {
		all := NewConnections(Bounds{Max: 10, PerAddress: 10})
		b := &BodiesBudget{Name: "BodyBytesTotal", Max: 1 << 20, PerConnection: 1 << 20}
		charge := b.NewCharge(NewDetached(all))
		r := httptest.NewRequest("POST", "/", iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 3))))
		r.ContentLength = -1
		charge.Body(r, free)
		for i, n := range []int{1, BodyFree - 1, BodyFree, 2*BodyFree - 2} { // the bytes that the next part may have
			if _, err := r.Body.Read(make([]byte, n)); (err == io.EOF) != (i == 3) {
				t.Fatal(err)
			}
			if b.Held() != want[i] {
				t.Errorf("%d bytes are free, part %d of up to %d bytes: %d are charged, expected %d", free, i, n, b.Held(), want[i])
			}
		}
	}
}
