package pebble_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// killedDir is an environment variable. If it is set, the test binary writes to
// that folder until it is killed.
const killedDir = "OSTIARY_TEST_KILLED_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(context.Background(), dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	killedStores  = 3
	killedWriters = 2 // concurrent writers of each store
)

// writeUntilKilled prints a line for each acknowledged entry.
func writeUntilKilled(ctx context.Context, dir string) error {
	d, err := pebble.Open(dir, pebble.Options{MemTableBytes: 256 << 10})
	if err != nil {
		return err
	}
	var writers sync.WaitGroup
	failed := make(chan error, killedStores*killedWriters)
	for n := range uint32(killedStores) {
		l := storagetest.NewLog(n + 1)
		err := d.CreateStore(ctx, storage.StoreInfo{ID: l.ID, Incarnation: l.Incarnation})
		if err != nil && !errors.Is(err, storage.ErrExists) {
			return err
		}
		for w := range killedWriters {
			writers.Go(func() { failed <- writeStore(ctx, d, n+1, w) })
		}
	}
	return <-failed
}

func writeStore(ctx context.Context, d storage.Driver, n uint32, writer int) error {
	l := storagetest.NewLog(n)
	l.Writer[1] = byte(writer)
	rng := rand.New(rand.NewPCG(uint64(n), uint64(writer)))
	for {
		err := l.Append(ctx, d, storagetest.RandomChanges(rng, 1+rng.IntN(20))...)
		var conflict *storage.ConflictError
		if errors.As(err, &conflict) {
			l.Head = conflict.Head
			continue
		}
		if err != nil {
			return err
		}
		// Each line is one write, so that lines of different writers do not mix.
		fmt.Printf("%d %d %s\n", n, l.Head.Revision, l.Head.Hash)
	}
}

// Killing a process while several writers are active does not lose an acknowledged
// entry and does not damage the folder. Each round continues with the folder of
// the previous one. OSTIARY_WORLDS multiplies the number of rounds.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(17, 1))
	total := 0
	for round := range 4 * worlds(t) {
		acked := runAndKill(t, dir, 100+rng.IntN(400))
		total += len(acked)
		d, err := pebble.Open(dir, pebble.Options{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		logs := map[string][]storage.Entry{}
		for n := range uint32(killedStores) {
			log, err := storagetest.Verify(t.Context(), d, storagetest.NewLog(n+1).ID)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			logs[fmt.Sprint(n+1)] = log
		}
		for _, line := range acked {
			var store, hash string
			var revision int
			if _, err := fmt.Sscan(line, &store, &revision, &hash); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			if log := logs[store]; revision > len(log) || log[revision-1].Hash().String() != hash {
				t.Fatalf("round %d: acknowledged entry %d of store %s is missing", round, revision, store)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d acknowledged entries survived", total)
}

// runAndKill starts a child process, kills it after a number of lines, and returns
// all complete lines that it printed.
func runAndKill(t *testing.T, dir string, lines int) (acked []string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), killedDir+"="+dir)
	var stderr strings.Builder
	child.Stderr = &stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			break // the last line is incomplete
		}
		acked = append(acked, strings.TrimSpace(line))
		if len(acked) == lines {
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	child.Wait() // its error is that it was killed
	if len(acked) < lines {
		t.Fatalf("the child ended after %d lines: %s", len(acked), stderr.String())
	}
	return acked
}
