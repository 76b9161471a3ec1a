package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ostiary/ostiary/internal/cluster/lease"
)

// nodeFigures collects the Prometheus metrics of a node of a cluster.
type nodeFigures struct {
	m                                                                  *member
	role, epoch, shown, readLease, holderLease, reachable, acknowledge *prometheus.Desc
	followers, lag, delay, late                                        *prometheus.Desc
	refused, expires, syncs, replica, behind, unreached                *prometheus.Desc
}

func newNodeFigures(m *member) *nodeFigures {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ostiary_node_"+name, help, labels, nil)
	}
	return &nodeFigures{m: m,
		role:        desc("role", "1 for the role that the node has: looking, follower, taking, holder, resigned.", "role"),
		epoch:       desc("epoch", "Epoch of the lease of the node that writes, as this node has seen it last."),
		shown:       desc("shown_sequence", "Last sequence of the log that this node shows."),
		readLease:   desc("read_lease_seconds", "How long this node may answer reads without news; 0 without a lease."),
		holderLease: desc("holder_lease_seconds", "How long the lease of this node lasts, if it writes."),
		reachable:   desc("reachable", "1 if this node reached the node that writes and the log the last time that it tried."),
		acknowledge: desc("acknowledges", "1 if this node writes and acknowledges writes; 0 until the read leases of the one before it are over."),
		followers:   desc("followers", "Number of nodes that follow this one, by state: leased, connected (without a lease), suspended (late too often), gone (a lease remains).", "state"),
		lag:         desc("follower_lag_sequences", "How many sequences a follower is behind this node.", "node"),
		delay:       desc("follower_delay_seconds", "Median time from sending a segment to its acknowledgement by a follower.", "node"),
		late:        desc("follower_late", "Number of acknowledgements in a row that were late.", "node"),
		refused:     desc("refused_total", "Number of connections and calls of other nodes that were refused."),
		replica:     desc("replica_reads_total", "Number of reads of the log that the replica of its database got, by outcome: used, late (it did not have the rows in time), failed.", "outcome"),
		expires:     desc("certificate_expires_seconds", "Time at which the certificate of this node expires, in seconds since 1970."),
		behind:      desc("behind_sequences", "How many sequences of the log this node does not show yet, of those that it knows."),
		unreached:   desc("unreached_seconds", "For how long this node has not reached the node that writes, or the log; 0 while it does. The node is behind by at most this time."),
		syncs:       desc("log_syncs_total", "How often this node has waited for its disk to keep entries of the log, in a cluster without a database."),
	}
}

// Describe implements [prometheus.Collector].
func (f *nodeFigures) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.role, f.epoch, f.shown, f.readLease, f.holderLease, f.reachable, f.acknowledge,
		f.followers, f.lag, f.delay, f.late, f.refused, f.expires, f.syncs, f.replica, f.behind, f.unreached} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (f *nodeFigures) Collect(to chan<- prometheus.Metric) {
	s := f.m.Rules.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(f.role, 1, roleNames[s.Role])
	gauge(f.epoch, float64(s.Lease.Epoch))
	gauge(f.shown, float64(s.Shown))
	gauge(f.readLease, s.ReadRemaining.Seconds())
	gauge(f.holderLease, s.HolderRemaining.Seconds())
	gauge(f.reachable, number(s.Failure == nil))
	gauge(f.behind, float64(max(s.Head, s.Shown)-s.Shown))
	gauge(f.unreached, s.Failing.Seconds())
	gauge(f.acknowledge, number(s.Acknowledges))
	states := map[string]int{"leased": 0, "connected": 0, "suspended": 0, "gone": 0}
	for _, of := range s.Followers {
		states[stateOf(of)]++
		id := of.Node.ID.String()
		gauge(f.lag, float64(max(s.Shown, of.Acknowledged)-of.Acknowledged), id)
		gauge(f.delay, of.Delay.Seconds(), id)
		gauge(f.late, float64(of.Late), id)
	}
	for state, n := range states {
		gauge(f.followers, float64(n), state)
	}
	to <- prometheus.MustNewConstMetric(f.refused, prometheus.CounterValue, float64(f.m.refused.Load()))
	if f.m.Quorum != nil {
		to <- prometheus.MustNewConstMetric(f.syncs, prometheus.CounterValue, float64(f.m.Quorum.Syncs()))
	}
	if s, has := f.m.replicaOfLog(); has {
		for outcome, n := range map[string]uint64{"used": s.Used, "late": s.Late, "failed": s.Failed} {
			to <- prometheus.MustNewConstMetric(f.replica, prometheus.CounterValue, float64(n), outcome)
		}
	}
	if f.m.Files != nil {
		gauge(f.expires, float64(f.m.Files.Expires().Unix()))
	}
}

func stateOf(f lease.FollowerStatus) string {
	switch {
	case !f.Connected:
		return "gone"
	case f.Suspended:
		return "suspended"
	case f.Remaining > 0:
		return "leased"
	}
	return "connected"
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
