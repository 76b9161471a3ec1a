package main

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

	"github.com/ostiary/ostiary/acp"
)

// killedDir is an environment variable. If it is set, the test binary runs as the
// child process that writes until it is killed.
const killedDir = "OSTIARY_TEST_DOCSTORE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(context.Background(), dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var (
	anne = identity(1)
	bob  = identity(2)
)

func identity(n byte) string {
	seed := make([]byte, 32)
	seed[0] = n
	k, err := acp.NewPrivateKey(acp.KeyEd25519, seed)
	if err != nil {
		panic(err)
	}
	return k.Public().DID()
}

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenStore(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := openStore(t, dir)
	create := func(actor, title string, readers ...string) string {
		t.Helper()
		id, err := s.Create(ctx, actor, Document{Title: title}, readers...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	private, shared, public := create(anne, "private"), create(anne, "shared", bob), create("", "public")
	for _, c := range []struct {
		actor, id string
		want      error
	}{{anne, private, nil}, {bob, private, ErrNoDocument}, {"", private, ErrNoDocument}, {bob, shared, nil}, {"", shared, ErrNoDocument}, {"", public, nil}, {bob, public, nil}, {bob, "none", ErrNoDocument}} {
		if _, err := s.Read(ctx, c.actor, c.id); !errors.Is(err, c.want) {
			t.Errorf("%s reads %s: %v", c.actor, c.id, err)
		}
	}
	if err := s.Update(ctx, bob, Document{ID: shared, Title: "his"}); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	if err := s.Share(ctx, bob, shared, "writer", bob); !errors.Is(err, acp.ErrUnauthorized) {
		t.Error(err)
	}
	if err := s.Share(ctx, anne, shared, "writer", bob); err != nil {
		t.Error(err)
	}
	if err := s.Update(ctx, bob, Document{ID: shared, Title: "ours"}); err != nil {
		t.Error(err)
	}
	if err := s.Unshare(ctx, anne, shared, "writer", bob); err != nil {
		t.Error(err)
	}
	if err := s.Update(ctx, bob, Document{ID: shared, Title: "his again"}); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	if err := s.Delete(ctx, bob, shared); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	titles := func(actor string) string {
		var all []string
		for d, err := range s.List(ctx, actor) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, d.Title)
		}
		return fmt.Sprint(len(all))
	}
	if got := titles(anne) + titles(bob) + titles(""); got != "321" {
		t.Error(got)
	}
	// A refused change adds neither a row nor a registration.
	before := titles(anne)
	if _, err := s.Create(ctx, anne, Document{Title: "half"}, "nodid"); !errors.Is(err, acp.ErrInvalidDID) || titles(anne) != before {
		t.Error(err)
	}
	if err := s.Delete(ctx, anne, shared); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	defer s.Close()
	if got := titles(anne) + titles(bob) + titles(""); got != "211" {
		t.Error(got)
	}
	consistent(t, s)
}

// consistent checks that each row is registered to its creator, and that exactly
// the registrations without a row are archived. It returns how many rows and
// archived registrations there are.
func consistent(t *testing.T, s *Store) (rows, archived int) {
	t.Helper()
	ctx := context.Background()
	there := map[string]string{}
	all, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for more := all.First(); more; more = all.Next() {
		if id, ok := strings.CutPrefix(string(all.Key()), "row/"); ok {
			d, err := s.get(id)
			if err != nil {
				t.Fatal(err)
			}
			there[id] = d.Creator
		}
	}
	if err := all.Close(); err != nil {
		t.Fatal(err)
	}
	for id, creator := range there {
		owner, registered, err := s.access.Owner(ctx, s.object(id))
		if err != nil || registered != (creator != "") || owner != creator {
			t.Errorf("row %s of %q is registered to %q: %v", id, creator, owner, err)
		}
	}
	for x, err := range s.access.FilterRelationships(ctx, s.policy, acp.RelationshipFilter{Relation: "owner"}) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.access.Registration(ctx, x.Object)
		if err != nil {
			t.Fatal(err)
		}
		if _, row := there[x.Object.ID]; row == r.Archived {
			t.Errorf("%s: a row %t, archived %t", x.Object.ID, row, r.Archived)
		}
		if r.Archived {
			archived++
		}
	}
	return len(there), archived
}

// writeUntilKilled creates, shares and deletes documents until the process is
// killed. It prints each acknowledged change.
func writeUntilKilled(ctx context.Context, dir string) error {
	s, err := OpenStore(ctx, dir)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	failed := make(chan error, 4)
	for n := range 4 {
		go func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 1))
			for i := 0; ; i++ {
				id, err := s.Create(ctx, anne, Document{Title: "t", Text: strings.Repeat("x", rnd.IntN(500))}, bob)
				what := "created"
				if err == nil && rnd.IntN(3) == 0 {
					err, what = s.Delete(ctx, anne, id), "deleted"
				}
				if err != nil {
					failed <- err
					return
				}
				mu.Lock()
				fmt.Println(what, id)
				mu.Unlock()
			}
		}()
	}
	return <-failed
}

// TestKilledInMidWrite repeatedly kills the database while four writers run, and
// opens it again. Each document must have both its row and its registration, or
// neither, and every acknowledged change must be present.
func TestKilledInMidWrite(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	const seed, rounds = 1, 8
	rnd := rand.New(rand.NewPCG(seed, seed))
	created, deleted := map[string]bool{}, map[string]bool{}
	for round := range rounds {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), killedDir+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for left := 20 + rnd.IntN(100); left > 0 && lines.Scan(); left-- {
			acknowledged(lines.Text(), created, deleted)
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // the lines that the child printed before it was killed
			acknowledged(lines.Text(), created, deleted)
		}
		child.Wait()
		s := openStore(t, dir)
		rows, archived := consistent(t, s)
		for id := range created {
			if d, err := s.Read(ctx, bob, id); err != nil || d.ID != id {
				t.Errorf("seed %d, round %d: acknowledged %s is lost: %v", seed, round, id, err)
			}
		}
		for id := range deleted {
			if _, err := s.Read(ctx, anne, id); !errors.Is(err, ErrNoDocument) {
				t.Errorf("seed %d, round %d: deleted %s is back: %v", seed, round, id, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
		t.Logf("round %d: %d rows, %d archived, %d and %d acknowledged", round, rows, archived, len(created), len(deleted))
	}
	if len(created) < 100 || len(deleted) < 20 {
		t.Errorf("only %d created and %d deleted", len(created), len(deleted))
	}
}

// acknowledged records a line of the child, if it is complete.
func acknowledged(line string, created, deleted map[string]bool) {
	switch what, id, _ := strings.Cut(line, " "); {
	case len(id) != len("doc-")+26: // the kill truncated the line
	case what == "created":
		created[id] = true
	case what == "deleted":
		deleted[id] = true
	}
}
