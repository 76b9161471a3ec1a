package fleet_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/workshop/fleet"
	"github.com/ostiary/ostiary/internal/workshop/history"
	"github.com/ostiary/ostiary/internal/workshop/oracle/faults"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/schema"
)

// versions are the numbers that a later program has in other places of its source. Each
// program knows all versions of the log, and speaks two versions of the protocols between
// nodes: its own and the one before.
var versions = []struct {
	file, name string
	less       int // than the number of versions by which the program is later
}{
	{"internal/cluster/sharedlog/version.go", "SegmentVersion", 0},
	{"internal/cluster/raftlog/identity.go", "VersionMin", 1},
	{"internal/cluster/raftlog/identity.go", "VersionMax", 0},
	{"internal/cluster/link/link.go", "VersionMin", 1},
	{"internal/cluster/link/link.go", "VersionMax", 0},
	{"internal/cluster/lease/link.go", "Version", 0},
}

// later builds the program with later numbers of versions. Nothing else differs.
func later(t *testing.T, by int) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	folder, sources := t.TempDir(), map[string]string{}
	for _, v := range versions {
		text := sources[v.file]
		if text == "" {
			b, err := os.ReadFile(filepath.Join(root, v.file))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		number := regexp.MustCompile(`(?m)^(?:\t|const )`+v.name+` += (\d+)`).FindAllStringSubmatchIndex(text, -1)
		if len(number) != 1 {
			t.Fatalf("%s has %d constants %s, expected one", v.file, len(number), v.name)
		}
		from, to := number[0][2], number[0][3]
		old, err := strconv.Atoi(text[from:to])
		if err != nil {
			t.Fatal(err)
		}
		sources[v.file] = text[:from] + strconv.Itoa(old+by-v.less) + text[to:]
	}
	overlay, err := faults.WriteOverlay(root, folder, sources)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(folder, "ostiary")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, "github.com/ostiary/ostiary/cmd/ostiary").CombinedOutput(); err != nil {
		t.Fatalf("build a later program: %v\n%s", err, out)
	}
	return program
}

// upgrade is a cluster under load whose programs are replaced.
type upgrade struct {
	*testing.T
	f        *fleet.Fleet
	web      *fleet.Balancer
	requests atomic.Int64
	repeated atomic.Int64 // requests that were sent again
}

// TestUpgrade replaces the program of one node after the other, while clients send
// requests through a proxy: none of them fails. (A read is sent again if a node had neither
// a lease nor the log in time, as on a busy machine.) The version of the log is raised once all
// nodes have the later program, and not before. An earlier program is then refused, and
// changes nothing. OSTIARY_PLAY_LOG is the log, as in TestPlay. With OSTIARY_PLAY, it goes on
// with a program that is one more version later, which the first one does not understand.
func TestUpgrade(t *testing.T) {
	parallel(t)
	next := later(t, 1)
	// No request fails because the machine is busy: leases last, and writes wait.
	f, _ := start(t, cmp.Or(os.Getenv("OSTIARY_PLAY_LOG"), "raft"), "--request-timeout", "100s", "--holder-lease", "20s", "--read-lease", "14s")
	first, err := build()
	if err != nil {
		t.Fatal(err)
	}
	u := &upgrade{T: t, f: f}
	u.web, _ = f.Balance()
	stop := u.begin()
	defer stop()
	if os.Getenv("OSTIARY_PLAY") == "" {
		u.to(first, next, 2)
	} else {
		last := later(t, 2)
		u.refuses(2, last, false, "speaks versions", "1 to 1") // they may differ by one
		u.to(first, next, 2)
		u.to(next, last, 3)
		u.refuses(0, first, true, "segments of version 3, but this version reads up to 1")
	}
	before := u.requests.Load()
	wait.Until(t, "clients go on", func() bool { return u.requests.Load() > before+20 })
	t.Logf("%d requests, %d of them repeated", stop(), u.repeated.Load())
}

// to replaces a program on all nodes by a later one, and raises the version of the log.
func (u *upgrade) to(old, next string, version uint32) {
	u.Helper()
	for i, n := range u.f.Nodes {
		out, err := u.f.Nodes[0].Command(u.Context(), next, "node", "upgrade")
		if have := strings.Count(out, fmt.Sprintf("reads up to version %d of segments, expected %d", version-1, version)); err == nil || have != len(u.f.Nodes)-i {
			u.Errorf("with %d nodes replaced, %d are named, error %v: %s", i, have, err, out)
		}
		if i == len(u.f.Nodes)-1 {
			u.followsLater(n, old)
		}
		u.restart(n, next)
		if v := u.ready(n).Node.Version; v != version-1 {
			u.Errorf("node %d, which was replaced, writes version %d, expected %d", i, v, version-1)
		}
	}
	if out, err := u.f.Nodes[1].Command(u.Context(), next, "node", "upgrade"); err != nil || !strings.Contains(out, fmt.Sprintf("the nodes use version %d; they used version %d before", version, version-1)) {
		u.Fatalf("upgrade: %v\n%s", err, out)
	}
	for _, n := range u.f.Nodes {
		wait.Until(u, "the node writes the later version", func() bool { return n.Ready(u.Context()).Node.Version == version })
	}
	before := u.requests.Load()
	wait.Until(u, "clients write the later version", func() bool { return u.requests.Load() > before+20 })
	u.refuses(1, old, true, fmt.Sprintf("segments of version %d, but this version reads up to %d", version, version-1))
}

// followsLater lets a node with the later program write what the last one with the older
// program has to read.
func (u *upgrade) followsLater(last *fleet.Node, old string) {
	u.Helper()
	if u.f.Holder(u.Context()) == last {
		u.restart(last, old)
	}
	wait.Until(u, "a node with the later program writes", func() bool {
		h := u.f.Holder(u.Context())
		return h != nil && h != last
	})
	before := u.requests.Load()
	wait.Until(u, "clients write", func() bool { return u.requests.Load() > before+20 })
	wait.Until(u, "the last node with the older program serves: see "+last.Output(), func() bool {
		return last.Ready(u.Context()).Status == "SERVING"
	})
}

// ready returns what a node that is ready answers, which on a busy machine may be late.
func (u *upgrade) ready(n *fleet.Node) (r fleet.Readiness) {
	u.Helper()
	wait.Until(u, "the node answers", func() bool {
		r = n.Ready(u.Context())
		return r.Status != ""
	})
	return r
}

// restart replaces the program of a node, which gets no requests meanwhile.
func (u *upgrade) restart(n *fleet.Node, program string) {
	u.Helper()
	err := n.Out(u.Context(), func() error {
		if err := n.Stop(); err != nil {
			return err
		}
		n.Use(program)
		return n.Start(u.Context())
	}, u.web)
	if err != nil {
		u.Fatal(err)
	}
}

// refuses starts a node with a program that does not understand the others. It does not
// serve, what it prints has all texts, and it starts again with the program that it had.
// If it ends at once, the registry has not changed.
func (u *upgrade) refuses(number int, program string, atOnce bool, texts ...string) {
	u.Helper()
	n := u.f.Nodes[number]
	registered := func() string { return u.registered(n) }
	err := n.Out(u.Context(), func() error {
		if err := n.Stop(); err != nil {
			return err
		}
		before, until, had := registered(), len(printed(n)), n.Use(program)
		if err := n.Begin(); err != nil {
			return err
		}
		wait.Until(u, "the node says why it does not serve", func() bool {
			text := n.Ready(u.Context()).Node.Failure + printed(n)[until:]
			for _, want := range texts {
				if !strings.Contains(text, want) {
					return false
				}
			}
			return true
		})
		if s := n.Ready(u.Context()).Status; s == "SERVING" {
			u.Errorf("node %d serves", number)
		}
		if atOnce {
			<-n.Ended()
		}
		n.Kill()
		if after := registered(); atOnce && after != before {
			u.Errorf("the registry had %s before, and has %s", before, after)
		}
		n.Use(had)
		return n.Start(u.Context())
	}, u.web)
	if err != nil {
		u.Fatal(err)
	}
}

// printed returns what the processes of a node have printed.
func printed(n *fleet.Node) string {
	b, _ := os.ReadFile(n.Output()) // there is none before the first start
	return string(b)
}

// registered returns the start of each node in the registry, by the words of another node.
func (u *upgrade) registered(except *fleet.Node) string {
	u.Helper()
	through := u.f.Nodes[(except.Number+1)%len(u.f.Nodes)]
	program, err := build()
	if err != nil {
		u.Fatal(err)
	}
	out, err := through.Command(u.Context(), program, "node", "list", "--json")
	var listed struct {
		Nodes []struct {
			ID    string
			Start uint64
		}
	}
	if err = errors.Join(err, json.Unmarshal([]byte(out), &listed)); err != nil {
		u.Fatalf("node list: %v\n%s", err, out)
	}
	return fmt.Sprint(listed.Nodes)
}

// failuresShown is how many failed requests are printed.
const failuresShown = 10

// begin lets clients send requests until stop is called, which returns their number.
func (u *upgrade) begin() (stop func() int64) {
	u.Helper()
	at, err := u.web.Listen("127.0.0.1:0")
	if err != nil {
		u.Fatal(err)
	}
	c := client.New("http://"+at, client.Options{})
	made, err := c.CreateStore(u.Context(), client.NewStore{Name: "upgrade"})
	if err != nil {
		u.Fatal(err)
	}
	s := c.Store(made.ID)
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	if _, err := s.WriteSchema(u.Context(), client.NewSchema{Model: &model}); err != nil {
		u.Fatal(err)
	}
	ctx, cancel := context.WithCancel(u.Context())
	var clients sync.WaitGroup
	var failed atomic.Int64
	for i := range 4 {
		clients.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				if err := u.ask(s, i, turn%2 == 0); err != nil && failed.Add(1) <= failuresShown {
					u.Errorf("a request failed at %s: %v", time.Now().Format(time.TimeOnly), err)
				}
			}
		})
	}
	return sync.OnceValue(func() int64 {
		cancel()
		clients.Wait()
		_ = u.web.Close(context.Background())
		return u.requests.Load()
	})
}

// ask adds or removes the tuple of a document, and requires that the next node shows it.
func (u *upgrade) ask(s *client.Store, doc int, add bool) error {
	t := history.DocumentTuple(doc)
	w := client.Write{Remove: client.TuplesOf(t)}
	if add {
		w = client.Write{Add: client.TuplesOf(t)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	u.requests.Add(1)
	if _, err := s.Write(ctx, w); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	for {
		u.requests.Add(1)
		d, err := s.Check(ctx, client.Question{Object: t.Object.String(), Relation: "viewer", Subject: t.Subject.String()})
		if err == nil && d.Allowed != add {
			err = fmt.Errorf("allowed is %t after a write with %t", d.Allowed, add)
		}
		if answer, is := errors.AsType[*client.Error](err); !is || answer.Code != "no_lease" {
			return err
		}
		u.repeated.Add(1)
	}
}
