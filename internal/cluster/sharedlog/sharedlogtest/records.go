package sharedlogtest

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

func secretCases() []testcase {
	return []testcase{
		{"secrets", "A secret is stored with its segment and found by its digest; once it is replaced or removed, the old ciphertext is gone.", secrets},
		{"secrets/store", "A deleted store loses all of its secrets, and no other store does.", secretsOfStore},
	}
}

func recordCases() []testcase {
	return []testcase{
		{"cluster", "The description of the cluster is replaced only if it is the one that the caller has read.", cluster},
		{"lease", "A lease is replaced only by a renewal of its holder or by a higher epoch, and only if it is the one that the caller has read.", lease},
		{"lease/race", "Of several nodes that take a lease over at the same time, one succeeds.", leaseRace},
		{"newest", "The last segment is the newest one unless the log was moved.", newest},
		{"nodes", "A start of a node replaces its record only with a higher number; later reports need the same number.", nodes},
		{"nodes/removed", "A removed node is refused with each start, and is not in the registry any more.", removedNodes},
	}
}

func digest(s string) storage.Hash { return sha256.Sum256([]byte(s)) }

// secretKey returns a key of the store with the id {1}.
func secretKey(key string) sharedlog.SecretKey {
	return sharedlog.SecretKey{Store: storage.StoreID{1}, Incarnation: storage.Incarnation{2}, Kind: "kind", Key: key}
}

func secretChange(key, body string) sharedlog.SecretChange {
	return sharedlog.SecretChange{SecretKey: secretKey(key), Digest: digest(body), Body: []byte(body)}
}

// change appends a segment with changes of secrets.
func (k *kit) change(changes ...sharedlog.SecretChange) {
	k.Helper()
	head, err := k.Head(k.ctx)
	k.ok(err)
	k.ok(k.Append(k.ctx, head, record(head, 1), changes))
}

// secret requires that a secret has a body, or with "" that it is gone.
func (k *kit) secret(key sharedlog.SecretKey, of storage.Hash, want string) {
	k.Helper()
	body, err := k.Secret(k.ctx, key, of)
	if want == "" {
		k.is(err, sharedlog.ErrNoSecret)
		return
	}
	k.ok(err)
	k.check(string(body) == want, "the secret is %q, want %q", body, want)
}

func secrets(k *kit) {
	k.change(secretChange("1", "a"), secretChange("2", "b"))
	k.secret(secretKey("1"), digest("a"), "a")
	k.secret(secretKey("2"), digest("b"), "b")
	k.secret(secretKey("1"), digest("b"), "")
	k.secret(secretKey("3"), digest("a"), "")
	k.change(secretChange("1", "c"))
	k.secret(secretKey("1"), digest("a"), "")
	k.secret(secretKey("1"), digest("c"), "c")
	k.change(sharedlog.SecretChange{SecretKey: secretKey("1"), Removed: true})
	k.secret(secretKey("1"), digest("c"), "")
	k.secret(secretKey("2"), digest("b"), "b")
	k.change(secretChange("4", "x"), sharedlog.SecretChange{SecretKey: secretKey("4"), Removed: true}, secretChange("4", "y"))
	k.secret(secretKey("4"), digest("y"), "y")
	large := string(make([]byte, 3*sharedlog.PartBytesMax+1))
	k.change(secretChange("large", large))
	k.secret(secretKey("large"), digest(large), large)
	odd := secretChange("odd\x00\xff key A", "z")
	folded := secretChange("odd\x00\xff key a ", "w")
	k.change(odd, folded)
	k.secret(odd.SecretKey, odd.Digest, "z")
	k.secret(folded.SecretKey, folded.Digest, "w")
}

func secretsOfStore(k *kit) {
	other := secretChange("1", "b")
	other.Store = storage.StoreID{7}
	later := secretChange("1", "c")
	later.Incarnation = storage.Incarnation{7}
	k.change(secretChange("1", "a"), secretChange("2", "a"), other, later)
	gone := secretKey("")
	gone.Kind = ""
	k.change(sharedlog.SecretChange{SecretKey: gone, Removed: true})
	k.secret(secretKey("1"), digest("a"), "")
	k.secret(secretKey("2"), digest("a"), "")
	k.secret(other.SecretKey, other.Digest, "b")
	k.secret(later.SecretKey, later.Digest, "c")
}

func cluster(k *kit) {
	have, err := k.Cluster(k.ctx)
	k.ok(err)
	k.check(have == sharedlog.Cluster{}, "the first description is %+v", have)
	first := sharedlog.Cluster{ID: sharedlog.ClusterID{1}, Format: 1, KeyFingerprint: storage.Hash{3},
		Settings: sharedlog.Settings{HolderLease: time.Second, ReadLease: 700 * time.Millisecond, Acknowledge: sharedlog.AcknowledgeLocal}}
	k.ok(k.SwapCluster(k.ctx, sharedlog.Cluster{}, first))
	k.is(k.SwapCluster(k.ctx, sharedlog.Cluster{}, sharedlog.Cluster{ID: sharedlog.ClusterID{2}}), sharedlog.ErrSwap)
	have, err = k.connect().Cluster(k.ctx)
	k.ok(err)
	k.check(have == first, "the description is %+v, want %+v", have, first)
	next := first
	next.Epoch, next.Format = 1, 1|sharedlog.FormatMoved
	k.ok(k.SwapCluster(k.ctx, first, next))
	k.is(k.SwapCluster(k.ctx, first, next), sharedlog.ErrSwap)
	for _, change := range []func(*sharedlog.Settings){
		func(s *sharedlog.Settings) { s.HolderLease++ },
		func(s *sharedlog.Settings) { s.ReadLease = sharedlog.LeaseMax },
		func(s *sharedlog.Settings) { s.Acknowledge = sharedlog.AcknowledgeLeased },
		func(s *sharedlog.Settings) { *s = sharedlog.Settings{} },
	} {
		old := next
		change(&next.Settings)
		k.is(k.SwapCluster(k.ctx, next, old), sharedlog.ErrSwap) // each setting is compared
		k.ok(k.SwapCluster(k.ctx, old, next))
		have, err = k.connect().Cluster(k.ctx)
		k.ok(err)
		k.check(have == next, "the description is %+v, want %+v", have, next)
	}
}

func lease(k *kit) {
	have, err := k.Lease(k.ctx)
	k.ok(err)
	k.check(have == sharedlog.Lease{}, "the first lease is %+v", have)
	a, b := storage.NodeID{1}, storage.NodeID{2}
	swap := func(new sharedlog.Lease, want error) {
		k.Helper()
		old, err := k.Lease(k.ctx)
		k.ok(err)
		err = k.SwapLease(k.ctx, old, new)
		if want != nil {
			k.is(err, want)
			new = old
		} else {
			k.ok(err)
		}
		have, err := k.Lease(k.ctx)
		k.ok(err)
		k.check(have == new, "the lease is %+v, want %+v", have, new)
	}
	swap(sharedlog.Lease{Epoch: 1}, sharedlog.ErrLease) // no holder
	swap(sharedlog.Lease{Holder: a}, sharedlog.ErrLease)
	swap(sharedlog.Lease{Holder: a, Epoch: 1}, nil)
	swap(sharedlog.Lease{Holder: a, Epoch: 1}, sharedlog.ErrLease) // no renewal
	swap(sharedlog.Lease{Holder: a, Epoch: 1, Renewals: 1}, nil)
	swap(sharedlog.Lease{Holder: b, Epoch: 1, Renewals: 2}, sharedlog.ErrLease)
	swap(sharedlog.Lease{Holder: b, Epoch: 2}, nil)
	swap(sharedlog.Lease{Holder: a, Epoch: 1, Renewals: 9}, sharedlog.ErrLease)
	swap(sharedlog.Lease{Holder: b, Epoch: 3}, nil)
	stale := sharedlog.Lease{Holder: b, Epoch: 2}
	k.is(k.SwapLease(k.ctx, stale, sharedlog.Lease{Holder: a, Epoch: 4}), sharedlog.ErrSwap)
}

func newest(k *kit) {
	head, err := sharedlog.Newest(k.ctx, k.Log)
	k.ok(err)
	k.check(head == sharedlog.Position{}, "a log without segments ends with %v", head)
	k.change()
	k.ok(k.SwapLease(k.ctx, sharedlog.Lease{}, sharedlog.Lease{Holder: sharedlog.Mover(), Epoch: 1, Renewals: 1}))
	want, err := k.Head(k.ctx)
	k.ok(err)
	head, err = sharedlog.Newest(k.ctx, k.Log)
	k.ok(err)
	k.check(head == want, "the newest segment is %v, want %v", head, want)
	lease, err := k.Lease(k.ctx)
	k.ok(err)
	k.ok(k.SwapLease(k.ctx, lease, lease.MovedFrom()))
	lease, err = k.Lease(k.ctx)
	k.ok(err)
	if !lease.Moved() {
		k.Skip("the log goes on with the next one, where it was moved to")
	}
	_, err = sharedlog.Newest(k.ctx, k.Log)
	k.is(err, sharedlog.ErrMoved)
	head, err = k.Head(k.ctx)
	k.ok(err)
	k.check(head == want, "the last segment of a log that was moved is %v, want %v", head, want)
}

func leaseRace(k *kit) {
	first := sharedlog.Lease{Holder: storage.NodeID{9}, Epoch: 1}
	k.ok(k.SwapLease(k.ctx, sharedlog.Lease{}, first))
	results := make([]error, 8)
	var group sync.WaitGroup
	for i := range results {
		l := k.connect()
		group.Go(func() {
			results[i] = l.SwapLease(k.ctx, first, sharedlog.Lease{Holder: storage.NodeID{byte(i + 10)}, Epoch: 2})
		})
	}
	group.Wait()
	have, err := k.Lease(k.ctx)
	k.ok(err)
	won := 0
	for i, err := range results {
		if err != nil {
			k.is(err, sharedlog.ErrSwap)
			continue
		}
		won++
		k.check(have.Holder[0] == byte(i+10), "node %d took the lease over, but the holder is %d", i+10, have.Holder[0])
	}
	k.check(won == 1, "%d nodes took the lease over", won)
}

func nodes(k *kit) {
	a := sharedlog.NodeRecord{ID: storage.NodeID{2}, Start: 3, Address: "a:1", Reads: 1}
	k.is(k.Report(k.ctx, a), sharedlog.ErrNodeTaken)
	k.ok(k.Register(k.ctx, a))
	k.is(k.Register(k.ctx, a), sharedlog.ErrNodeTaken) // a copy of the data folder
	a.Applied, a.Synced, a.Head, a.Zone, a.Preferred = 7, 5, 9, "zone 'ä'", true
	k.ok(k.Report(k.ctx, a))
	b := sharedlog.NodeRecord{ID: storage.NodeID{1}, Start: 1, Reads: 1}
	k.ok(k.Register(k.ctx, b))
	all, now, err := k.Nodes(k.ctx)
	k.ok(err)
	k.check(len(all) == 2 && all[0].ID == b.ID, "the registry has %+v", all)
	seen := all[1].Seen
	all[1].Seen = time.Time{}
	k.check(all[1] == a, "the record is %+v, want %+v", all[1], a)
	k.check(!seen.IsZero() && !seen.After(now) && now.Sub(seen) < time.Minute, "the node was seen at %s, and now it is %s", seen, now)
	a.Preferred, a.Stopped = false, true
	k.ok(k.Report(k.ctx, a))
	all, _, err = k.Nodes(k.ctx)
	k.ok(err)
	k.check(!all[1].Preferred && all[1].Stopped, "the record of a stopped node is %+v", all[1])
	again := a
	again.Start = 4
	k.ok(k.Register(k.ctx, again))
	k.is(k.Report(k.ctx, a), sharedlog.ErrNodeTaken) // the earlier start still runs
	k.is(k.Register(k.ctx, a), sharedlog.ErrNodeTaken)
	k.ok(k.Forget(k.ctx, a.ID))
	k.ok(k.Forget(k.ctx, a.ID))
	all, _, err = k.connect().Nodes(k.ctx)
	k.ok(err)
	k.check(len(all) == 1, "the registry has %+v after a node was forgotten", all)
}

func removedNodes(k *kit) {
	a, b := sharedlog.NodeRecord{ID: storage.NodeID{2}, Start: 3, Address: "a:1", Reads: 1}, sharedlog.NodeRecord{ID: storage.NodeID{1}, Start: 1, Reads: 1}
	k.ok(k.Register(k.ctx, a))
	k.ok(k.Register(k.ctx, b))
	for _, id := range []storage.NodeID{a.ID, a.ID, {3}} { // also one that was never registered
		k.ok(sharedlog.Remove(k.ctx, k.Log, id))
		k.ok(k.Forget(k.ctx, id))
		for _, start := range []uint64{1, a.Start, a.Start + 9} {
			back := sharedlog.NodeRecord{ID: id, Start: start, Reads: 1}
			for _, err := range []error{k.Register(k.ctx, back), k.Report(k.ctx, back)} {
				k.is(err, sharedlog.ErrNodeTaken)
				k.check(err == nil || strings.Contains(err.Error(), "node "+id.String()+" was removed"), "a removed node is refused with %v", err)
			}
		}
	}
	all, _, err := k.connect().Nodes(k.ctx)
	k.ok(err)
	k.check(len(all) == 1 && all[0].ID == b.ID, "the registry has %+v after nodes were removed", all)
}
