package sharedlogtest

import (
	"bytes"
	"database/sql"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sqllog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// Replicated is a database with a replica.
type Replicated struct {
	// URL is the address of the log, with the parameter replica.
	URL string
	// Primary is the database with its own driver, and Placeholders are those of two
	// arguments.
	Primary      *sql.DB
	Placeholders [2]string
	// Hold stops what the replica applies, and Release goes on.
	Hold, Release func()
	// Kill ends the replica, and Start starts it again.
	Kill, Start func()
}

// Replica requires that a log reads segments and snapshots from a replica, that it never
// returns anything else than the primary has, however late or wrong the replica is, and
// that it goes on without the replica.
func (open SQL) Replica(t *testing.T, r Replicated) {
	t.Helper()
	l, err := open(t.Context(), r.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := &replicaKit{t: t, Replicated: r, l: l}
	if s, has := l.Replica(); !has || s.Used+s.Late+s.Failed > 0 {
		t.Fatalf("at the start the replica is %v, with figures %+v", has, s)
	}
	for n := range 4 {
		k.append(bytes.Repeat([]byte{byte(n + 1)}, 1000))
	}
	k.append(bytes.Repeat([]byte{9}, 2*sharedlog.PartBytesMax+1))
	var snapshot [][]byte
	for n := range 20 {
		snapshot = append(snapshot, []byte{byte(n)})
	}
	parts := func(yield func([]byte, error) bool) {
		for _, p := range snapshot {
			if !yield(p, nil) {
				return
			}
		}
	}
	if err := l.PutSnapshot(t.Context(), k.all[2].Position, parts); err != nil {
		t.Fatal(err)
	}

	wait.Until(t, "all segments are read from the replica", func() bool {
		before := k.status()
		k.reads()
		after := k.status()
		return after.Used-before.Used == 4 && after.Late == before.Late // one query, and one for each of three parts
	})
	wait.Until(t, "the snapshot is read from the replica", func() bool {
		before := k.status()
		k.readsSnapshot(snapshot)
		return k.status().Used-before.Used == 2
	})

	r.Hold()
	// The primary loses the bytes of what the replica has.
	k.exec("update ostiary_log set bytes = "+r.Placeholders[0]+" where sequence = "+r.Placeholders[1], []byte{}, 2)
	k.reads()
	k.exec("update ostiary_log set bytes = "+r.Placeholders[0]+" where sequence = "+r.Placeholders[1], k.all[1].Bytes, 2)

	k.append([]byte("late")) // the head is that of the primary
	before := k.status()
	k.reads()
	if after := k.status(); after.Late == before.Late {
		t.Errorf("a replica that lacks the last segment was not noticed: %+v", after)
	}

	// The replica has another segment than the primary, as after a fail-over.
	k.all[5].Hash, k.all[5].Bytes = storage.Hash{66}, []byte("other")
	k.exec("update ostiary_log set hash = "+r.Placeholders[0]+" where sequence = "+r.Placeholders[1], k.all[5].Hash[:], 6)
	k.exec("update ostiary_log set bytes = "+r.Placeholders[0]+" where sequence = "+r.Placeholders[1], k.all[5].Bytes, 6)
	fifth := k.all[4]
	k.all[4] = sharedlog.Record{Position: sharedlog.Position{Sequence: 5, Hash: storage.Hash{55}}, Bytes: []byte("fifth")}
	k.exec("update ostiary_log set parts = 0, hash = "+r.Placeholders[0]+" where sequence = "+r.Placeholders[1], k.all[4].Hash[:], 5)
	k.exec("update ostiary_log set bytes = "+r.Placeholders[0]+" where sequence = "+r.Placeholders[1], k.all[4].Bytes, 5)
	k.reads()
	if s := k.status(); s.Failed == 0 || s.Failure == nil || !strings.Contains(s.Failure.Error(), "the replica has segment "+fifth.Position.String()) {
		t.Errorf("a replica with another segment was not noticed: %+v", s)
	}
	r.Release()

	r.Kill()
	failed := k.status().Failed
	wait.Until(t, "the replica has failed", func() bool {
		k.reads()
		return k.status().Failed > failed
	})
	r.Start()
	wait.Until(t, "the replica is used again", func() bool {
		before := k.status().Used
		k.reads()
		s := k.status()
		return s.Used > before && s.Failure == nil
	})
}

// replicaKit checks what a log with a replica returns.
type replicaKit struct {
	t *testing.T
	Replicated
	l   *sqllog.Log
	all []sharedlog.Record // what the primary has
}

func (k *replicaKit) status() sharedlog.ReplicaStatus {
	s, _ := k.l.Replica()
	return s
}

// append appends a segment.
func (k *replicaKit) append(body []byte) {
	k.t.Helper()
	var after sharedlog.Position
	if n := len(k.all); n > 0 {
		after = k.all[n-1].Position
	}
	r := sharedlog.Record{Position: sharedlog.Position{Sequence: after.Sequence + 1, Hash: storage.Hash{byte(after.Sequence + 1)}}, Bytes: body}
	if err := k.l.Append(k.t.Context(), after, r, nil); err != nil {
		k.t.Fatal(err)
	}
	k.all = append(k.all, r)
}

// exec runs a statement on the primary.
func (k *replicaKit) exec(statement string, arguments ...any) {
	k.t.Helper()
	if _, err := k.Primary.ExecContext(k.t.Context(), statement, arguments...); err != nil {
		k.t.Fatal(err)
	}
}

// reads requires that the log has all segments.
func (k *replicaKit) reads() {
	k.t.Helper()
	n := 0
	for r, err := range k.l.Read(k.t.Context(), 1) {
		if err != nil {
			k.t.Fatal(err)
		}
		if n >= len(k.all) || r.Position != k.all[n].Position || !bytes.Equal(r.Bytes, k.all[n].Bytes) {
			k.t.Fatalf("segment %s has %d bytes, expected %s", r.Position, len(r.Bytes), k.all[min(n, len(k.all)-1)].Position)
		}
		n++
	}
	if n != len(k.all) {
		k.t.Fatalf("%d segments, expected %d", n, len(k.all))
	}
}

// readsSnapshot requires that the snapshot has parts.
func (k *replicaKit) readsSnapshot(want [][]byte) {
	k.t.Helper()
	_, parts, err := k.l.Snapshot(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	n := 0
	for p, err := range parts {
		if err != nil || n >= len(want) || !bytes.Equal(p, want[n]) {
			k.t.Fatalf("part %d is %v, error %v", n, p, err)
		}
		n++
	}
	if n != len(want) {
		k.t.Fatalf("%d parts, expected %d", n, len(want))
	}
}
