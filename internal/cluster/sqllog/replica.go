package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// replica is a copy of the database that another server keeps, some time later. Rows that
// never change are read from it: segments, and parts of segments and of snapshots. The
// primary decides which segments there are, so what a replica has is compared with it.
// What a replica does not have, or not in time, is read from the primary.
type replica struct {
	db                 *sql.DB
	used, late, failed atomic.Uint64
	failure            atomic.Pointer[error] // why the last read failed; nil after one that did not
	// avoid and hurry are times, in nanoseconds since began: the replica is not asked
	// before the first one, and not waited for before the second one.
	avoid, hurry atomic.Int64
	began        time.Time
}

const (
	// replicaTime bounds a read from a replica.
	replicaTime = 5 * time.Second
	// patience is how long a read waits for a replica that is late: changes usually
	// arrive there within milliseconds.
	patience = 50 * time.Millisecond
	// avoidTime is how long a replica is not asked after it has failed, and hurryTime how
	// long it is not waited for after it was late.
	avoidTime = 5 * time.Second
	hurryTime = time.Second
)

// UseReplica makes the log read what never changes from a replica of the database, for
// as long as that answers and has it. It is called once, before the log is used. Close
// closes the replica.
func (l *Log) UseReplica(db *sql.DB) {
	db.SetMaxOpenConns(connectionsMax)
	db.SetMaxIdleConns(connectionsMax)
	l.replica = &replica{db: db, began: time.Now()}
}

// Replica implements [sharedlog.Replicated].
func (l *Log) Replica() (s sharedlog.ReplicaStatus, has bool) {
	r := l.replica
	if r == nil {
		return s, false
	}
	s = sharedlog.ReplicaStatus{Used: r.used.Load(), Late: r.late.Load(), Failed: r.failed.Load()}
	if err := r.failure.Load(); err != nil {
		s.Failure = *err
	}
	return s, true
}

// before reports whether a time of r has not come.
func (r *replica) before(at *atomic.Int64) bool { return int64(time.Since(r.began)) < at.Load() }

// set sets a time of r to a duration from now.
func (r *replica) set(at *atomic.Int64, d time.Duration) { at.Store(int64(time.Since(r.began) + d)) }

// fail notes that the replica cannot be used.
func (r *replica) fail(err error) {
	r.failed.Add(1)
	r.failure.Store(&err)
	r.set(&r.avoid, avoidTime)
}

// onReplica runs a read on the replica, if there is one, until it reports that it found
// what it looked for. If onReplica returns false, the primary is read.
func (l *Log) onReplica(ctx context.Context, read func(ctx context.Context, db *sql.DB) (found bool, err error)) bool {
	r := l.replica
	if r == nil || r.before(&r.avoid) {
		return false
	}
	end := time.Now().Add(patience)
	if r.before(&r.hurry) {
		end = time.Time{}
	}
	for wait := repeatMin; ; wait *= 2 {
		bound, cancel := context.WithTimeout(ctx, replicaTime)
		found, err := read(bound, r.db)
		cancel()
		switch {
		case ctx.Err() != nil || l.ctx.Err() != nil:
			return false
		case err != nil:
			r.fail(err)
			return false
		case found:
			r.used.Add(1)
			r.failure.Store(nil)
			return true
		case !time.Now().Add(wait).Before(end):
			r.late.Add(1)
			r.set(&r.hurry, hurryTime)
			return false
		}
		pause(ctx, wait)
	}
}

// replicaRows returns up to readRows segments from the replica, the first of which is
// from, if it has them and the last one is that of the primary. The others follow from
// it by their hashes, which readers compare.
func (l *Log) replicaRows(ctx context.Context, from uint64, head sharedlog.Position) (all []segmentRow) {
	found := l.onReplica(ctx, func(ctx context.Context, db *sql.DB) (bool, error) {
		var err error
		all, err = l.scanRows(ctx, db, from, head.Sequence)
		if len(all) == 0 {
			return false, err
		}
		last, want := all[len(all)-1].Position, head
		if last.Sequence != head.Sequence {
			if want, err = l.positionOf(ctx, last.Sequence); err != nil || want.Sequence == 0 {
				return false, err
			}
		}
		if last != want {
			return false, fmt.Errorf("%w: the replica has segment %s, and the primary has segment %s", storage.ErrHistory, last, want)
		}
		return true, nil
	})
	if !found {
		return nil
	}
	return all
}

// positionOf returns the position of a segment, from the primary; the zero position if it
// is no longer kept.
func (l *Log) positionOf(ctx context.Context, sequence uint64) (p sharedlog.Position, err error) {
	var hash []byte
	found, err := l.row(ctx, "select hash from ostiary_log where shard = 0 and sequence = ?", []any{int64(sequence)}, &hash)
	if err != nil || !found {
		return p, err
	}
	p.Sequence = sequence
	return p, fill(p.Hash[:], hash)
}

// replicaPart returns a part of a segment from the replica, if it has it.
func (l *Log) replicaPart(ctx context.Context, hash storage.Hash, number int) (part []byte, found bool) {
	found = l.onReplica(ctx, func(ctx context.Context, db *sql.DB) (bool, error) {
		err := db.QueryRowContext(ctx, l.dialect.Rebind(partQuery), hash[:], number).Scan(&part)
		return scanned(err)
	})
	return part, found
}

// replicaParts returns the parts of a snapshot that ahead reads, from the replica, if it
// has all of them.
func (l *Log) replicaParts(ctx context.Context, attempt []byte, from int) (parts [][]byte) {
	found := l.onReplica(ctx, func(ctx context.Context, db *sql.DB) (bool, error) {
		var err error
		if parts, err = l.scanParts(ctx, db, attempt, from); err != nil || len(parts) == snapshotRows {
			return err == nil, err
		}
		var n int
		_, err = l.row(ctx, "select count(*) from ostiary_snapshot_part where attempt = ? and part >= ? and part < ?", []any{attempt, from, from + snapshotRows}, &n)
		return err == nil && n > 0 && n == len(parts), err
	})
	if !found {
		return nil
	}
	return parts
}

// CutReplica splits the parameter replica off the URL of a database, which may have
// several hosts. replica is the URL of the replica: the same user, database and
// parameters, at another host; "" without the parameter.
func CutReplica(address string) (primary, replica string, err error) {
	base, text, found := strings.Cut(address, "?")
	parameters, failed := url.ParseQuery(text)
	if !found || failed != nil || !parameters.Has("replica") {
		return address, "", nil // who opens it reports what is wrong
	}
	host := parameters.Get("replica")
	if strings.Contains(host, "@") { // it may have a password
		return "", "", errors.New("invalid parameter replica with an @, expected HOST:PORT: the user is that of the URL")
	}
	if name, port, err := net.SplitHostPort(host); err != nil || name == "" || port == "" || strings.ContainsAny(host, "/,") {
		return "", "", fmt.Errorf("invalid parameter replica %q, expected HOST:PORT", host)
	}
	parameters.Del("replica")
	if text = parameters.Encode(); text != "" {
		text = "?" + text
	}
	scheme, rest, _ := strings.Cut(base, "://")
	hosts, name, _ := strings.Cut(rest, "/")
	user := hosts[:strings.LastIndexByte(hosts, '@')+1]
	return base + text, scheme + "://" + user + host + "/" + name + text, nil
}
