package sharedlogtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// Demoted is a database with a replica, to which connections lead after a fail-over.
type Demoted struct {
	// URL is the address of the log on the primary.
	URL string
	// At is HOST:PORT of the replica, and Replica the database there, with its own driver.
	At      string
	Replica *sql.DB
	// Hold stops what the replica applies.
	Hold func()
}

// Demoted requires that a log never takes what a late replica has for what the log has, if
// its address leads to the replica, and that it finds the primary among several hosts.
func (open SQL) Demoted(t *testing.T, d Demoted) {
	t.Helper()
	direct, err := open(t.Context(), d.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	way, l := open.through(t, d.URL)
	key := sharedlog.SecretKey{Store: storage.StoreID{1}, Kind: "k", Key: "k"}
	secret := sharedlog.SecretChange{SecretKey: key, Body: []byte("body"), Digest: sha256.Sum256([]byte("body"))}
	var all []sharedlog.Record
	write := func(secrets ...sharedlog.SecretChange) {
		t.Helper()
		s := sharedlog.Segment{Sequence: uint64(len(all)) + 1, Writer: storage.NodeID{1}}
		var after sharedlog.Position
		if len(all) > 0 {
			after = all[len(all)-1].Position
			s.Previous = after.Hash
		}
		r, err := s.Record()
		if err == nil {
			err = direct.Append(t.Context(), after, r, secrets)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	write()
	wait.Until(t, "the replica has the first segment", func() bool {
		var n int
		return d.Replica.QueryRow("select count(*) from ostiary_log").Scan(&n) == nil && n == 1
	})
	if head, err := l.Head(t.Context()); err != nil || head != all[0].Position {
		t.Fatalf("the head is %s, error %v, expected %s", head, err, all[0].Position)
	}
	d.Hold()
	write(secret)
	if err := direct.SwapLease(t.Context(), sharedlog.Lease{}, sharedlog.Lease{Holder: storage.NodeID{1}, Epoch: 1}); err != nil {
		t.Fatal(err)
	}

	primary := d.URL[strings.Index(d.URL, "@")+1:]
	primary = primary[:strings.IndexByte(primary, '/')]
	way.To(d.At)
	for range 3 { // a broken connection is noticed first
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if head, err := l.Head(ctx); err == nil {
			t.Errorf("the head of a late replica is %s, the log has %s", head, all[1].Position)
		} else {
			t.Log("head:", err)
		}
		if lease, err := l.Lease(ctx); err == nil {
			t.Errorf("a late replica answers the lease %+v", lease)
		}
		if _, err := l.Secret(ctx, key, secret.Digest); err == nil || strings.Contains(err.Error(), sharedlog.ErrNoSecret.Error()) {
			t.Errorf("a late replica answers a secret: error %v", err)
		}
		cancel()
	}
	u, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = d.At + "," + primary
	both, err := open(t.Context(), u.String())
	if err != nil {
		t.Fatalf("several hosts, the first of which is a replica: %v", err)
	}
	defer both.Close()
	way.To(primary)
	wait.Until(t, "the log is that of the primary again", func() bool {
		head, err := l.Head(t.Context())
		return err == nil && head == all[1].Position
	})
	if head, err := both.Head(t.Context()); err != nil || head != all[1].Position {
		t.Errorf("several hosts: the head is %s, error %v, expected %s", head, err, all[1].Position)
	}
}
