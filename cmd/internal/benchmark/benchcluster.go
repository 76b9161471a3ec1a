package benchmark

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cluster"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
)

// nodesMax bounds --nodes: more than five nodes do not vote.
const nodesMax = 5

// The targets of the benchmark of clusters.
const (
	targetServe    = "serve"
	targetEmbedded = "embedded"
	targetNodes    = "nodes"
)

// clustered is a node of a cluster that a benchmark has started.
type clustered struct {
	process *running
	args    []string
	http    string // URL
	metrics string // HOST:PORT
	writes  bool
	side    *bench.Side // nil before it was added as one
}

// serverGroup is a cluster without a database on this machine.
type serverGroup struct {
	*sides
	dir   string
	hosts delay.Hosts // of the nodes; nil if all are on the loopback interface
	args  []string    // more arguments of each node
	nodes []*clustered
}

// clusterBench are the flags of the benchmark of clusters.
type clusterBench struct {
	benchFlags
	options     bench.ClusterOptions
	size        string
	delays      []time.Duration
	acknowledge string
	join        bool
	proxies     bool
	logs        []string // not empty: measure only writes over these
	programs    []string
}

// delay returns how far the nodes are from each other, of a run without --log.
func (f *clusterBench) delay() time.Duration {
	if len(f.delays) == 0 {
		return 0
	}
	return f.delays[0]
}

func (a *app) benchCluster() *cobra.Command {
	f := &clusterBench{}
	f.driver = "pebble"
	cmd := &cobra.Command{Use: "cluster", Short: "What the nodes of a cluster cost: durable writes, memory, the next commit after a kill, a new node", Args: cobra.NoArgs,
		Long: "Start a cluster without a database on this machine, a single server, and a cluster in this process, all with the same tuples, or with\n" +
			"--target some of them: a large store has a copy in each node, and one more in the node that joins. Measure\n" +
			"durable writes of one tuple by one client and by many, next to fdatasync of the same disk, with the memory of a node and the processor\n" +
			"time of all nodes; then the time until a new node serves, and the time from a kill of the node that writes to the next commit.\n\n" +
			"With --delay the nodes are that far apart, one way, in network namespaces (root on Linux) or behind proxies, and only they are measured.\n\n" +
			"With --log, measure only writes, to three nodes over each of these logs at each --delay, at the node that writes and at another one. Next to\n" +
			"the times are the round trips that a write cannot avoid, measured without it: a bare commit of the log and a round trip to the other nodes. A\n" +
			"database is started on this machine, as far from the nodes as they are from each other; Galera has a server next to each node.",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runBenchCluster(cmd, f) }}
	f.addOutput(cmd)
	s := cmd.Flags()
	s.StringSliceVar(&f.targets, "target", []string{targetServe, targetEmbedded, targetNodes}, `what to measure: "serve" is a single server, "embedded" a cluster in this process, "nodes" a cluster of servers, which alone can have kills and a new node`)
	s.IntVar(&f.nodes, "nodes", 3, "number of nodes of a cluster, 1 to 5; with fewer than 3, none can be killed")
	s.StringVar(&f.size, "size", "4k", "number of tuples in each store before, at least 4k")
	s.IntSliceVar(&f.options.Writers, "writers", []int{1, 64}, "numbers of clients that write, one cell each; with --log, by default 1,10,64")
	s.DurationVar(&f.options.Load.Duration, "duration", 3*time.Second, "duration of each cell of writes")
	s.DurationVar(&f.options.Load.WarmUp, "warm-up", 500*time.Millisecond, "duration of the warm-up before each cell, which is not measured")
	s.IntVar(&f.options.Kills, "kills", 5, "how often the node that writes is killed; 0 never kills it")
	s.BoolVar(&f.join, "join", true, "let a new node join")
	s.DurationSliceVar(&f.delays, "delay", []time.Duration{0}, "how far the nodes are from each other, one way; with --log, several are measured in turn, by default 0,25ms,75ms")
	s.StringSliceVar(&f.logs, "log", nil, "measure only writes over these logs: "+strings.Join(geo.LogsAll(), ", "))
	s.StringSliceVar(&f.programs, "program", nil, "file of the program ostiary to measure, also of another build; with --log, several are measured in turn; default: the one next to this program")
	s.BoolVar(&f.proxies, "proxies", false, "with --delay: delay TCP connections with proxies, also where there are network namespaces")
	s.StringVar(&f.acknowledge, "acknowledge", "leased", "--acknowledge of the nodes")
	return cmd
}

func (a *app) runBenchCluster(cmd *cobra.Command, f *clusterBench) error {
	ctx := cmd.Context()
	var err error
	if len(f.programs) == 1 {
		a.server = f.programs[0]
	}
	if f.options.Size, err = parseSize(f.size); err != nil {
		return err
	}
	switch {
	case f.options.Size < bench.SizeMinOpenFGA:
		return fmt.Errorf("%w: invalid --size %s: expected at least %d tuples", cli.ErrUsage, f.size, bench.SizeMinOpenFGA)
	case len(f.logs) > 0:
		return a.runBenchWrites(cmd, f)
	case len(f.delays) > 1 || len(f.programs) > 1:
		return fmt.Errorf("%w: %d of --delay and %d of --program without --log: expected at most one of each", cli.ErrUsage, len(f.delays), len(f.programs))
	case f.nodes < 1 || f.nodes > nodesMax:
		return fmt.Errorf("%w: invalid --nodes %d: expected 1 to %d", cli.ErrUsage, f.nodes, nodesMax)
	case f.nodes < 3 && f.options.Kills > 0 && slices.Contains(f.targets, targetNodes):
		return fmt.Errorf("%w: invalid --kills %d with --nodes %d: expected 0, because the nodes that are left are no majority", cli.ErrUsage, f.options.Kills, f.nodes)
	}
	if f.delay() > 0 && !slices.Contains(f.targets, targetNodes) {
		return fmt.Errorf("%w: invalid --target %s with --delay: expected %s, which alone can be apart", cli.ErrUsage, strings.Join(f.targets, ","), targetNodes)
	}
	for _, target := range f.targets {
		if target != targetServe && target != targetEmbedded && target != targetNodes {
			return fmt.Errorf("%w: invalid --target %q: expected %s, %s or %s", cli.ErrUsage, target, targetServe, targetEmbedded, targetNodes)
		}
	}
	return a.measured(ctx, &f.benchFlags, func(ctx context.Context, emit func(bench.Record) error) (err error) {
		s := &sides{app: a, flags: &f.benchFlags, size: f.options.Size}
		s.model, s.tuples = bench.WorldOpenFGA(f.options.Size)
		defer func() { err = errors.Join(err, s.close()) }()
		return a.onCluster(ctx, f, s, emit)
	})
}

// writersMax bounds --writers with --log.
const writersMax = 1000

// runBenchWrites measures only writes, over the logs of --log.
func (a *app) runBenchWrites(cmd *cobra.Command, f *clusterBench) error {
	for _, log := range f.logs {
		if !slices.Contains(geo.LogsAll(), log) {
			return fmt.Errorf("%w: invalid --log %q: expected %s", cli.ErrUsage, log, strings.Join(geo.LogsAll(), ", "))
		}
	}
	if !cmd.Flags().Changed("delay") {
		f.delays = []time.Duration{0, 25 * time.Millisecond, 75 * time.Millisecond}
	}
	for _, d := range f.delays {
		if d < 0 || d > time.Second || d%time.Millisecond != 0 {
			return fmt.Errorf("%w: invalid --delay %s: expected whole milliseconds from 0 to 1s", cli.ErrUsage, d)
		}
		if d == geo.Hierarchical*time.Millisecond {
			return fmt.Errorf("%w: invalid --delay %s: expected another one, because the study of regions calls its groups of zones so", cli.ErrUsage, d)
		}
	}
	if !cmd.Flags().Changed("writers") {
		f.options.Writers = []int{1, 10, 64}
	}
	for _, n := range f.options.Writers {
		if n < 1 || n > writersMax {
			return fmt.Errorf("%w: invalid --writers %d: expected 1 to %d", cli.ErrUsage, n, writersMax)
		}
	}
	if f.acknowledge != "leased" && f.acknowledge != "local" {
		return fmt.Errorf("%w: invalid --acknowledge %q: expected leased or local", cli.ErrUsage, f.acknowledge)
	}
	for _, flag := range []string{"target", "nodes", "kills", "join"} {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("%w: --%s with --log: expected without, because only writes to three nodes are measured", cli.ErrUsage, flag)
		}
	}
	if f.programs == nil {
		program, err := a.ostiary(cmd.Context())
		if err != nil {
			return err
		}
		f.programs = []string{program}
	}
	return a.measured(cmd.Context(), &f.benchFlags, func(ctx context.Context, emit func(bench.Record) error) error {
		line := a.Progress()
		defer line.End()
		return geo.Writes(ctx, geo.WritesOptions{Programs: f.programs, Logs: f.logs, Delays: f.delays, Writers: f.options.Writers, Load: f.options.Load, Size: f.options.Size,
			Local: f.acknowledge == "local", Proxies: f.proxies, Emit: emit, Progress: line.Show, Tell: func(text string) {
				line.End()
				fmt.Fprintln(a.Err, text)
			}})
	})
}

// onCluster starts the servers of the benchmark of clusters, and measures them.
func (a *app) onCluster(ctx context.Context, f *clusterBench, s *sides, emit func(bench.Record) error) error {
	f.noFloor = true
	if slices.Contains(f.targets, targetServe) && f.delay() == 0 {
		if err := s.serve(ctx); err != nil {
			return err
		}
		s.list = s.list[:1] // over gRPC it is the same server
		s.list[0].Peer += ", a single server"
	}
	if slices.Contains(f.targets, targetEmbedded) && f.delay() == 0 {
		if err := s.embeddedCluster(ctx, f.nodes); err != nil {
			return err
		}
	}
	o := f.options
	if slices.Contains(f.targets, targetNodes) {
		c, err := s.cluster(ctx, f.nodes, f.apart, f.settings()...)
		if err != nil {
			return err
		}
		c.measure(f, &o)
	}
	line := a.Progress()
	defer line.End()
	return (&bench.Runner{Sides: s.list, Emit: emit, Progress: line.Show}).Cluster(ctx, o)
}

// measure lets a benchmark measure what only a cluster of servers can have.
func (c *serverGroup) measure(f *clusterBench, o *bench.ClusterOptions) {
	for i := range c.list {
		side := &c.list[i]
		if slices.ContainsFunc(c.nodes, func(one *clustered) bool { return one.side.PID == side.PID }) {
			c.others(side)
		}
	}
	o.Folder = c.dir
	if f.join {
		o.Join = func(ctx context.Context) error {
			one, err := c.join(ctx, len(c.nodes))
			if err != nil {
				return err
			}
			_, err = c.attach(ctx, one) // it has loaded the store
			return err
		}
	}
	if o.Kills > 0 {
		o.Kill = c.kill
	}
}

// settings returns the settings of the nodes, none for the default ones. Leases grow with
// the distance, as docs/cluster.md asks for.
func (f *clusterBench) settings() (args []string) {
	if f.acknowledge != "leased" {
		args = append(args, "--acknowledge", f.acknowledge)
	}
	if trip := 2 * f.delay(); trip > 0 {
		holder, read := geo.Leases(trip, trip)
		args = append(args, "--holder-lease", holder.String(), "--read-lease", read.String())
	}
	return args
}

// apart makes the hosts of n nodes, or none.
func (f *clusterBench) apart(n int) (hosts delay.Hosts, err error) {
	away := f.delay()
	if away == 0 {
		return nil, nil
	}
	way := func(from, to int) time.Duration { return away }
	if !f.proxies {
		namespaces, err := delay.OpenNamespaces(n, way)
		if err == nil || !errors.Is(err, delay.ErrUnavailable) {
			return namespaces, err
		}
	}
	return delay.OpenLoopback(n, way)
}

// cluster starts a cluster without a database on this machine, whose first node has a
// filled store, and adds two sides: the node that writes, which the report of LXD names the
// leader, and another one. apart returns the hosts of the nodes and of one more, if they are
// not all on the loopback interface; nil is like nil hosts.
func (s *sides) cluster(ctx context.Context, n int, apart func(int) (delay.Hosts, error), args ...string) (*serverGroup, error) {
	if s.flags.driver != "pebble" {
		return nil, fmt.Errorf("%w: --nodes with --driver %s: expected pebble", cli.ErrUsage, s.flags.driver)
	}
	dir, err := os.MkdirTemp("", "ostiary-bench-")
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
	c := &serverGroup{sides: s, dir: dir, args: args}
	if apart != nil {
		if c.hosts, err = apart(n + 1); err != nil {
			return nil, err
		}
		if c.hosts != nil {
			s.closers = append(s.closers, c.hosts.Close)
		}
	}
	// The library fills the folder faster, but its cluster would have the default settings.
	if len(args) == 0 {
		e, end, err := openNode(ctx, cluster.Options{Folder: c.folder(0)})
		if err != nil {
			return nil, err
		}
		if err := s.fill(ctx, "the cluster", e, end); err != nil {
			return nil, err
		}
	}
	for i := range n {
		one, err := c.join(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", i+1, err)
		}
		c.nodes = append(c.nodes, one)
	}
	if len(args) > 0 {
		if err := s.fillThrough(ctx, c.nodes[0]); err != nil {
			return nil, err
		}
	}
	if err := c.findWriter(ctx); err != nil {
		return nil, err
	}
	added := map[bool]bool{}
	for _, one := range c.nodes {
		side, err := s.sideOf(ctx, one)
		if err != nil {
			return nil, err
		}
		if one.side = side; !added[one.writes] {
			added[one.writes] = true
			s.list = append(s.list, *side)
		}
	}
	if last := len(s.list) - 1; len(added) == 2 && s.list[last].Peer == s.own().Peer { // the one that writes comes first
		s.list[last-1], s.list[last] = s.list[last], s.list[last-1]
	}
	return c, nil
}

func (c *serverGroup) folder(i int) string { return filepath.Join(c.dir, fmt.Sprint("node", i+1)) }

// addresses are those of a service of a node: where it listens, where other nodes reach it,
// and where clients do.
type addresses struct{ listen, nodes, clients string }

func (c *serverGroup) addresses(i int, service string) (at addresses, err error) {
	if c.hosts == nil {
		ports, err := freePorts(1)
		if err != nil {
			return at, err
		}
		return addresses{ports[0], ports[0], ports[0]}, nil
	}
	port, err := c.hosts.Port(i, service)
	if err != nil {
		return at, err
	}
	at.listen = net.JoinHostPort(c.hosts.Bind(i), strconv.Itoa(port))
	if at.nodes, err = c.hosts.Reach(-1, i, service); err != nil {
		return at, err
	}
	at.clients, err = c.hosts.Client(i, service)
	return at, err
}

// join starts node i of the cluster. All but the first one join it.
func (c *serverGroup) join(ctx context.Context, i int) (*clustered, error) {
	var of [3]addresses
	for n, service := range []string{"http", "metrics", "nodes"} {
		var err error
		if of[n], err = c.addresses(i, service); err != nil {
			return nil, err
		}
	}
	web, metrics, nodes := of[0], of[1], of[2]
	args := append([]string{"serve", "--data", c.folder(i), "--http", web.listen, "--grpc", "off", "--metrics", metrics.listen, "--nodes-listen", nodes.listen,
		"--nodes-address", nodes.nodes, "--drain-time", "0", "--log-level", "error"}, c.args...)
	if c.hosts != nil {
		args = append(args, "--metrics-exposed", "--auth-anonymous")
	}
	if i == 0 {
		args = append(args, "--cluster")
	} else {
		token, err := c.token(ctx)
		if err != nil {
			return nil, err
		}
		args = append(args, "--join", token)
	}
	one := &clustered{http: "http://" + web.clients, metrics: metrics.clients, args: args}
	return one, c.begin(ctx, i, one)
}

// token returns a token of the first node with which another one joins the cluster.
func (c *serverGroup) token(ctx context.Context) (string, error) {
	program, err := c.app.ostiary(ctx)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, program, "node", "token", "--data", c.folder(0)).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("node token: %w: %s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// begin starts the process of a node, and returns when it serves.
func (c *serverGroup) begin(ctx context.Context, i int, one *clustered) (err error) {
	// A node whose peers are killed reports each attempt to reach them.
	name := c.folder(i) + ".log"
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	start := func(cmd *exec.Cmd) error {
		cmd.Stderr = out
		if c.hosts == nil {
			return cmd.Start()
		}
		return c.hosts.Start(i, cmd)
	}
	if one.process, err = c.ostiary(ctx, start, "http://"+one.metrics+"/readyz", one.args...); err != nil {
		text, _ := os.ReadFile(name)
		return fmt.Errorf("%w: it printed %q", err, text[max(0, len(text)-printedMax):])
	}
	return nil
}

// printedMax is how much of what a node has printed an error has, in bytes.
const printedMax = 1000

// fillThrough fills a store through a node.
func (s *sides) fillThrough(ctx context.Context, through *clustered) error {
	t, err := bench.NewHTTP(through.http, "")
	if err != nil {
		return err
	}
	line := s.app.Progress()
	defer line.End()
	return errors.Join(t.Setup(ctx, s.model, s.tuples, func(n int) { line.Show("filling the cluster", n, s.size) }), t.Close())
}

// openNode opens an engine on a node in this process.
func openNode(ctx context.Context, o cluster.Options) (*ostiary.Engine, func() error, error) {
	n, err := cluster.Open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	if _, _, _, err := n.Writer(ctx); err != nil {
		return nil, nil, errors.Join(err, n.Close())
	}
	// A large store is filled with large appends.
	e, err := n.Engine(ctx, ostiary.Options{Conditions: cli.Conditions(cel.Options{}), Bounds: authz.Bounds{AppendTime: startMax}})
	if err != nil {
		return nil, nil, errors.Join(err, n.Close())
	}
	return e, n.Close, nil
}

// embeddedCluster starts a cluster in this process, fills it, and adds the node that
// writes as a side.
func (s *sides) embeddedCluster(ctx context.Context, n int) error {
	dir, err := os.MkdirTemp("", "ostiary-bench-")
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
	first, err := cluster.Open(ctx, cluster.Options{Folder: filepath.Join(dir, "node1")})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, first.Close)
	if _, _, _, err := first.Writer(ctx); err != nil {
		return err
	}
	for i := 1; i < n; i++ {
		token, err := first.Token(ctx, time.Minute)
		if err != nil {
			return err
		}
		_, end, err := openNode(ctx, cluster.Options{Folder: filepath.Join(dir, fmt.Sprint("node", i+1)), Join: token})
		if err != nil {
			return err
		}
		s.closers = append(s.closers, end)
	}
	e, err := first.Engine(ctx, ostiary.Options{Conditions: cli.Conditions(cel.Options{})})
	if err != nil {
		return err
	}
	t := bench.NewEmbedded(e)
	line := s.app.Progress()
	defer line.End()
	if err := t.Setup(ctx, s.model, s.tuples, func(n int) { line.Show("filling the cluster in this process", n, s.size) }); err != nil {
		return err
	}
	side := s.own()
	side.Notes = fmt.Sprintf("the node that writes, of a cluster of %d in this process", n)
	return s.add(side, t)
}

// findWriter waits until one of the nodes writes, and notes which.
func (c *serverGroup) findWriter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for {
		for _, one := range c.nodes {
			one.writes = false
		}
		for _, one := range c.nodes {
			writes, err := bench.Writes(ctx, one.metrics)
			if one.writes = err == nil && writes; one.writes {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("no node of the cluster writes")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill kills the node that writes.
func (c *serverGroup) kill(ctx context.Context) (survivor *bench.Side, again func(context.Context) error, err error) {
	if err := c.findWriter(ctx); err != nil {
		return nil, nil, err
	}
	for i, one := range c.nodes {
		if one.writes {
			one.process.kill()
			return c.nodes[(i+1)%len(c.nodes)].side, func(ctx context.Context) error { return c.begin(ctx, i, one) }, nil
		}
	}
	return nil, nil, errors.New("no node writes")
}

// others adds the other nodes to the side of a node.
func (c *serverGroup) others(side *bench.Side) {
	for _, one := range c.nodes {
		if one.side.PID != side.PID {
			side.Others = append(side.Others, one.process.Process.Pid)
		}
	}
}

// attach returns the filled store of a node.
func (s *sides) attach(ctx context.Context, one *clustered) (*bench.HTTP, error) {
	t, err := bench.NewHTTP(one.http, "")
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, t.Close)
	return t, t.Attach(ctx)
}

// sideOf returns the side of a node.
func (s *sides) sideOf(ctx context.Context, one *clustered) (*bench.Side, error) {
	t, err := s.attach(ctx, one)
	if err != nil {
		return nil, err
	}
	side := s.own()
	side.PID, side.Metrics, side.Target = one.process.Process.Pid, "http://"+one.metrics+"/metrics", t
	side.Notes = "the node that writes, of a cluster on one machine"
	if !one.writes {
		side.Peer += bench.OtherNode
		side.Notes = "another node of a cluster on one machine"
	}
	return &side, nil
}
