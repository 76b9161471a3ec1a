// Package sharedlogtest tests a shared log against the contract of package sharedlog: it is
// the one place that states, case by case, what a log promises. [Run] has what every log
// promises. Each case has a sentence about the part of the contract that it tests, prints it
// when it fails, and uses the log only through the interface [sharedlog.Log]. [RunDriver] runs
// the contract of drivers on copies of a log, and [Drill] restores a log from a backup.
//
// The methods of [SQL] have what a log in a database promises besides: what it refuses when it
// is opened, and what it does with a replica, with a server that is far away, paused, busy or
// demoted, and with statements that the database undoes.
package sharedlogtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Opener opens a connection. Each call opens the same data. Several connections are
// in use at the same time.
type Opener func() (sharedlog.Log, error)

// Corrupter is an optional interface of a log under test. The cases about damage run
// only if the log implements it.
type Corrupter interface {
	// Corrupt replaces the stored bytes of a segment by what change makes of them.
	Corrupt(sequence uint64, change func([]byte) []byte)
}

// Run runs the suite. For each case it calls newOpener, which returns an Opener for
// new, empty data. Run closes the connections that it opens.
func Run(t *testing.T, newOpener func(t *testing.T) Opener) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			t.Cleanup(cancel)
			k := &kit{T: t, opener: newOpener(t), contract: c.contract, ctx: ctx}
			k.Log = k.connect()
			c.run(k)
		})
	}
}

// testcase is one case of the suite.
type testcase struct {
	name     string
	contract string // the part of the contract that the case tests, as a sentence
	run      func(k *kit)
}

func cases() []testcase {
	var all []testcase
	for _, part := range [][]testcase{segmentCases(), damageCases(), secretCases(), recordCases(), snapshotCases()} {
		all = append(all, part...)
	}
	return all
}

// kit is the test and a connection of a running case. Its methods fail the test with
// the contract in the message.
type kit struct {
	*testing.T
	sharedlog.Log
	opener   Opener
	contract string // see testcase.contract
	ctx      context.Context
}

// Fatalf is like [testing.T.Fatalf], with the contract in the message.
func (k *kit) Fatalf(format string, args ...any) {
	k.Helper()
	k.T.Fatalf("%s\nThe contract: %s", fmt.Sprintf(format, args...), k.contract)
}

// connect opens another connection.
func (k *kit) connect() sharedlog.Log {
	k.Helper()
	l, err := k.opener()
	if err != nil {
		k.Fatalf("opening the log: %v", err)
	}
	k.Cleanup(func() {
		if err := l.Close(); err != nil {
			k.Errorf("closing the log: %v", err)
		}
	})
	return l
}

// ok requires that err is nil.
func (k *kit) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("unexpected error: %v", err)
	}
}

// is requires that err wraps kind.
func (k *kit) is(err, kind error) {
	k.Helper()
	if !errors.Is(err, kind) {
		k.Fatalf("error %v, want %v", err, kind)
	}
}

// conflict requires that err is a ConflictError with a head.
func (k *kit) conflict(err error, head sharedlog.Position) {
	k.Helper()
	var c *sharedlog.ConflictError
	if !errors.As(err, &c) {
		k.Fatalf("error %v, want a conflict", err)
	}
	k.check(c.Head == head, "the conflict has the head %s, want %s", c.Head, head)
}

// check requires that ok is true.
func (k *kit) check(ok bool, format string, args ...any) {
	k.Helper()
	if !ok {
		k.Fatalf(format, args...)
	}
}

// record returns a barrier of a writer as a record that follows a position.
func record(after sharedlog.Position, writer byte) sharedlog.Record {
	s := sharedlog.Segment{Sequence: after.Sequence + 1, Previous: after.Hash, Writer: storage.NodeID{writer}}
	r, err := s.Record()
	if err != nil {
		panic(err) // a barrier is small
	}
	return r
}

// bytesRecord returns a record with any bytes.
func bytesRecord(after sharedlog.Position, b []byte) sharedlog.Record {
	return sharedlog.Record{Position: sharedlog.Position{Sequence: after.Sequence + 1, Hash: sha256.Sum256(b)}, Bytes: b}
}

// append appends barriers, and returns the positions after each of them.
// The first one is that before.
func (k *kit) append(n int) []sharedlog.Position {
	k.Helper()
	head, err := k.Head(k.ctx)
	k.ok(err)
	all := []sharedlog.Position{head}
	for range n {
		r := record(head, 1)
		k.ok(k.Append(k.ctx, head, r, nil))
		head = r.Position
		all = append(all, head)
	}
	return all
}

// read returns the segments from a sequence on.
func read(ctx context.Context, l sharedlog.Log, from uint64) (all []sharedlog.Record, err error) {
	for r, err := range l.Read(ctx, from) {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}
