package sqllog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Cluster implements [sharedlog.Log].
func (l *Log) Cluster(ctx context.Context) (c sharedlog.Cluster, err error) {
	var id, key []byte
	found, err := l.row(ctx, "select id, epoch, format, key_fingerprint, holder_lease, read_lease, acknowledge from ostiary_cluster where one = 1", nil,
		&id, &c.Epoch, &c.Format, &key, &c.Settings.HolderLease, &c.Settings.ReadLease, &c.Settings.Acknowledge)
	if err != nil || !found {
		return sharedlog.Cluster{}, err
	}
	return c, errors.Join(fill(c.ID[:], id), fill(c.KeyFingerprint[:], key))
}

// SwapCluster implements [sharedlog.Log].
func (l *Log) SwapCluster(ctx context.Context, old, new sharedlog.Cluster) error {
	var made bool
	var err error
	if old == (sharedlog.Cluster{}) {
		made, err = l.insert(ctx, "insert into ostiary_cluster (id, epoch, format, key_fingerprint, holder_lease, read_lease, acknowledge, one) values (?, ?, ?, ?, ?, ?, ?, 1)",
			clusterColumns(&new)...)
	} else {
		same := func() (bool, error) {
			have, err := l.Cluster(ctx)
			return have == old, err
		}
		made, err = l.replace(ctx, same, `update ostiary_cluster set id = ?, epoch = ?, format = ?, key_fingerprint = ?, holder_lease = ?, read_lease = ?, acknowledge = ?
			where one = 1 and id = ? and epoch = ? and format = ? and key_fingerprint = ? and holder_lease = ? and read_lease = ? and acknowledge = ?`,
			append(clusterColumns(&new), clusterColumns(&old)...)...)
	}
	if err == nil && !made {
		err = fmt.Errorf("description of the cluster: %w", sharedlog.ErrSwap)
	}
	return err
}

// clusterColumns returns the columns of a description.
func clusterColumns(c *sharedlog.Cluster) []any {
	s := &c.Settings
	return []any{c.ID[:], int64(c.Epoch), int64(c.Format), c.KeyFingerprint[:], int64(s.HolderLease), int64(s.ReadLease), int64(s.Acknowledge)}
}

// Lease implements [sharedlog.Log].
func (l *Log) Lease(ctx context.Context) (lease sharedlog.Lease, err error) {
	var holder []byte
	found, err := l.leases.row(ctx, "select holder, epoch, renewals from ostiary_lease where shard = 0", nil, &holder, &lease.Epoch, &lease.Renewals)
	if err != nil || !found {
		return sharedlog.Lease{}, err
	}
	return lease, fill(lease.Holder[:], holder)
}

// SwapLease implements [sharedlog.Log].
func (l *Log) SwapLease(ctx context.Context, old, new sharedlog.Lease) error {
	err := sharedlog.CheckLease(old, new)
	if err != nil {
		return err
	}
	var made bool
	if old == (sharedlog.Lease{}) {
		made, err = l.leases.insert(ctx, "insert into ostiary_lease (shard, holder, epoch, renewals) values (0, ?, ?, ?)", new.Holder[:], int64(new.Epoch), int64(new.Renewals))
	} else {
		same := func() (bool, error) {
			have, err := l.Lease(ctx)
			return have == old, err
		}
		made, err = l.leases.replace(ctx, same, "update ostiary_lease set holder = ?, epoch = ?, renewals = ? where shard = 0 and holder = ? and epoch = ? and renewals = ?",
			new.Holder[:], int64(new.Epoch), int64(new.Renewals), old.Holder[:], int64(old.Epoch), int64(old.Renewals))
	}
	if err == nil && !made {
		err = fmt.Errorf("lease of shard 0: %w", sharedlog.ErrSwap)
	}
	return err
}

// Register implements [sharedlog.Log].
func (l *Log) Register(ctx context.Context, n sharedlog.NodeRecord) error {
	return l.putNode(ctx, &n, "start < ?", func(start uint64) bool { return start < n.Start }, func() (bool, error) {
		return l.insert(ctx, "insert into ostiary_node (start, address, reads_format, applied, synced, head, zone, preferred, stopped, id, seen) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "+l.dialect.Now()+")",
			append(nodeColumns(&n), n.ID[:])...)
	})
}

// Report implements [sharedlog.Log].
func (l *Log) Report(ctx context.Context, n sharedlog.NodeRecord) error {
	return l.putNode(ctx, &n, "start = ?", func(start uint64) bool { return start == n.Start }, func() (bool, error) { return false, nil })
}

// nodeColumns returns the columns of the record of a node, without its id and seen.
func nodeColumns(n *sharedlog.NodeRecord) []any {
	return []any{int64(n.Start), n.Address, int64(n.Reads), int64(n.Applied), int64(n.Synced), int64(n.Head), n.Zone, number(n.Preferred), number(n.Stopped)}
}

// putNode replaces the record of a node if its start fulfills a condition, or else
// inserts it.
func (l *Log) putNode(ctx context.Context, n *sharedlog.NodeRecord, condition string, fulfills func(start uint64) bool, insert func() (bool, error)) error {
	var start uint64
	same := func() (bool, error) {
		found, err := l.row(ctx, "select start from ostiary_node where id = ?", []any{n.ID[:]}, &start)
		return found && fulfills(start), err
	}
	put, err := l.replace(ctx, same, `update ostiary_node set start = ?, address = ?, reads_format = ?, applied = ?, synced = ?, head = ?, zone = ?, preferred = ?, stopped = ?,
		seen = `+l.dialect.Now()+" where id = ? and "+condition, append(nodeColumns(n), n.ID[:], int64(n.Start))...)
	if err == nil && !put {
		put, err = insert()
	}
	if err == nil && !put {
		err = sharedlog.NodeTaken(start, n)
	}
	return err
}

// Forget implements [sharedlog.Log].
func (l *Log) Forget(ctx context.Context, id storage.NodeID) error {
	_, err := l.exec(ctx, "delete from ostiary_node where id = ? and start < ?", id[:], int64(math.MaxInt64)) // the start of a removed node
	return err
}

// Nodes implements [sharedlog.Log].
func (l *Log) Nodes(ctx context.Context) (all []sharedlog.NodeRecord, now time.Time, err error) {
	var micros int64
	if _, err := l.row(ctx, "select "+l.dialect.Now(), nil, &micros); err != nil {
		return nil, now, err
	}
	err = l.query(ctx, func() { all = nil }, func(scan func(...any) error) error {
		var n sharedlog.NodeRecord
		var id []byte
		var seen int64
		if err := scan(&id, &n.Start, &n.Address, &n.Reads, &n.Applied, &n.Synced, &n.Head, &n.Zone, &n.Preferred, &n.Stopped, &seen); err != nil {
			return err
		}
		n.Seen = time.UnixMicro(seen)
		all = append(all, n)
		return fill(all[len(all)-1].ID[:], id)
	}, "select id, start, address, reads_format, applied, synced, head, zone, preferred, stopped, seen from ostiary_node")
	return sharedlog.Registered(all), time.UnixMicro(micros), err
}
