package server

import (
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door"
)

// TestBodiesMakeRoom checks that a new body waits until the request of a closed
// connection has ended, because its memory is in use until then. Bodies that were
// closed for others make room once. A body that has arrived is not closed.
func TestBodiesMakeRoom(t *testing.T) {
	t.Parallel()
	all := newConnections(&Options{ConnectionsMax: 10, ConnectionsPerAddress: 10})
	b := &bodiesBudget{name: "BodyBytesTotal", max: 400, perConnection: 400}
	arrived := b.newCharge(newDetached(all))
	if why := arrived.add(100); why != nil {
		t.Fatal(why)
	}
	arrived.since = time.Now().Add(-time.Hour)
	arrived.whole()
	var old [3]charge
	for i := range old {
		old[i] = b.newCharge(newDetached(all))
		if why := old[i].add(100); why != nil {
			t.Fatal(why)
		}
		old[i].since = time.Now().Add(-time.Hour)
	}
	got := make(chan *door.Refusal)
	var added charge
	go func() {
		added = b.newCharge(newDetached(all))
		got <- added.add(150)
	}()
	wait := func(closing int64) {
		for {
			b.mu.Lock()
			n, waiting := b.closing, b.freed != nil
			b.mu.Unlock()
			if n == closing && waiting {
				return
			}
			select {
			case why := <-got:
				t.Fatal("the body did not wait:", why)
			case <-time.After(time.Millisecond):
			}
		}
	}
	wait(200) // two connections are closed, the third stays
	if old[2].closing || arrived.closing {
		t.Error("more connections than needed were closed, or the one whose body has arrived")
	}
	old[0].release()
	wait(100)
	old[1].release()
	if why := <-got; why != nil {
		t.Fatal(why)
	}
	if b.held() != 350 || b.closing != 0 {
		t.Error(b.held(), b.closing)
	}
	// The third connection is closed, but its request does not end.
	late := b.newCharge(newDetached(all))
	if why := late.add(100); why == nil || !strings.Contains(why.Error(), "the bound BodyBytesTotal is 400") {
		t.Error(why)
	}
	old[2].release()
	arrived.release()
	added.release()
	if b.held() != 0 || b.closing != 0 {
		t.Error(b.held(), b.closing)
	}
}
