package geo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// Options are the settings of a [Runner].
type Options struct {
	// Cells are played in this order, if they have no record yet.
	Cells []Cell
	// Records is the folder of records.
	Records string
	// Work is a folder in which a folder with the data of cells is made and removed again.
	// A folder in memory, as in the study, keeps the disk out of the times.
	Work string
	// Program is the file of this program.
	Program string
	// Keystone is the Python environment that has the real Keystone and uwsgi. Its cells
	// are left out if it is "".
	Keystone string
	// For is how long to go on beginning cells. 0 means to the end.
	For time.Duration
	// ScenarioMax is how long the iterations of a scenario may take, as estimated from the
	// first one. If they would take longer, fewer are played, and the first one alone if there
	// is no time for two. Default 5 minutes.
	ScenarioMax time.Duration
	// Part is the part of Rally's iterations to play, at most 1. Default 1. PartHigh is that
	// of cells under high load, whose instances all play it, and half of it with more than 9
	// instances; default Part.
	Part, PartHigh float64
	// Proxies is true if delays are made by proxies even where namespaces are available.
	Proxies bool
	// Again plays cells again of which it is not known that the machine was quiet, the most
	// urgent first.
	Again bool
	// Quiet begins a cell only while other programs use at most [OutsideMax] of a processor.
	// It waits for that for some minutes, and then ends with [ErrLoaded].
	Quiet bool
	// Mix accepts records of other commits, which the page then shows.
	Mix bool
	// Progress, if not nil, gets the current step, the finished part of it, and the total.
	Progress func(title string, done, total int)
	// Tell, if not nil, gets a line for each cell: that it is left out, or its result.
	Tell func(line string)
}

// Runner plays cells.
type Runner struct {
	o      Options
	work   string
	shared files
	began  time.Time
	took   map[Column][]time.Duration
	done   int
	left   []Cell
	have   map[Cell]Record // of earlier runs
}

// ErrMixed is returned if the folder has records of another commit.
var ErrMixed = errors.New("records of another commit")

// ErrSpace is returned if a disk has too little space left to begin a cell.
var ErrSpace = errors.New("too little space on the disk")

// iterationMax bounds an iteration: Rally has no bound, and a client that hangs must end.
const iterationMax = 10 * time.Minute

// Run plays the cells that have no record yet, and returns how many are left. It writes
// the record of each cell at its end, so that it can be ended at any time.
func Run(ctx context.Context, o Options) (left int, err error) {
	if o.Part == 0 {
		o.Part = 1
	}
	if o.PartHigh == 0 {
		o.PartHigh = o.Part
	}
	if o.ScenarioMax == 0 {
		o.ScenarioMax = 5 * time.Minute
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	for _, part := range []float64{o.Part, o.PartHigh} {
		if part < 0 || part > 1 {
			return 0, fmt.Errorf("part %g of the iterations: expected above 0, at most 1", part)
		}
	}
	for _, c := range o.Cells {
		if err := c.check(); err != nil {
			return 0, err
		}
	}
	r := &Runner{o: o, began: time.Now(), took: map[Column][]time.Duration{}, have: map[Cell]Record{}}
	if err := r.resume(); err != nil {
		return 0, err
	}
	if len(r.left) == 0 {
		return 0, nil
	}
	if usesDatabase := func(c Cell) bool { return len(c.databases()) > 0 }; os.Getuid() == 0 && slices.ContainsFunc(r.left, usesDatabase) {
		if err := servers.CheckEnter(cmp.Or(o.Work, os.TempDir())); err != nil {
			return len(r.left), err
		}
	}
	if r.work, err = os.MkdirTemp(o.Work, "ostiary-geo-"); err != nil {
		return len(r.left), err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	if err := os.Chmod(r.work, 0o711); err != nil {
		return len(r.left), err
	}
	if r.shared, err = o.shareFiles(ctx, r.work); err != nil {
		return len(r.left), err
	}
	for len(r.left) > 0 {
		if o.For > 0 && time.Since(r.began)+r.estimate(r.left[:1]) > o.For {
			return len(r.left), nil
		}
		if o.Quiet {
			r.o.Progress("waiting until the machine is quiet", 0, 0)
			if err := awaitQuiet(ctx, quietWatch, quietWait); err != nil {
				return len(r.left), err
			}
		}
		if err := r.one(ctx, r.left[0]); err != nil {
			return len(r.left), err
		}
		r.left = r.left[1:]
	}
	return 0, nil
}

// resume finds out which cells are left. Those that this machine cannot play are left
// out.
func (r *Runner) resume() error {
	have, err := Load(r.o.Records)
	if err != nil {
		return err
	}
	commit := bench.Commit()
	for _, x := range have {
		if x.Commit != commit && !r.o.Mix {
			return fmt.Errorf("%w: %s has the record %s of commit %q, this program is of %q: use another folder, remove it, or accept it", ErrMixed, r.o.Records, x.Cell.File(), x.Commit, commit)
		}
		r.have[x.Cell] = x
		r.took[x.Cell.Column] = append(r.took[x.Cell.Column], x.Took)
	}
	namespaces, lacks, told := sync.OnceValue(r.namespaces), map[Column]string{}, map[Column]bool{}
	for _, c := range r.o.Cells {
		if x, played := r.have[c]; played && (x.Quiet() || !r.o.Again) {
			continue
		}
		what, known := lacks[c.Column]
		if !known {
			what = r.o.missing(c.Column)
			lacks[c.Column] = what
		}
		if what == "" {
			what = c.lacksNetwork(namespaces)
		}
		switch {
		case what == "":
			r.left = append(r.left, c)
		case !told[c.Column]:
			told[c.Column] = true
			r.o.Tell(fmt.Sprintf("left out: %s: %s", c.Column, what))
		}
	}
	if r.o.Again {
		sortUrgent(r.left, r.have)
	}
	return nil
}

// lacksNetwork returns what the network of a cell needs if this process cannot make network
// namespaces, or "".
func (c Cell) lacksNetwork(namespaces func() bool) string {
	if (c.Store == Galera || c.Delay == Hierarchical) && !namespaces() {
		return "it needs network namespaces: root, /dev/net/tun and Linux"
	}
	return ""
}

// namespaces reports whether this process can make network namespaces.
func (r *Runner) namespaces() bool {
	if r.o.Proxies {
		return false
	}
	n, err := delay.OpenNamespaces(2, func(int, int) time.Duration { return 0 })
	return err == nil && n.Close() == nil
}

// estimate returns how long cells take, as far as cells of their columns did.
func (r *Runner) estimate(cells []Cell) (sum time.Duration) {
	mean := func(all []time.Duration) (m time.Duration) {
		for _, t := range all {
			m += t / time.Duration(len(all))
		}
		return m
	}
	var all []time.Duration
	for _, x := range r.took {
		all = append(all, x...)
	}
	for _, c := range cells {
		if x := r.took[c.Column]; len(x) > 0 {
			sum += mean(x)
		} else {
			sum += mean(all)
		}
	}
	return sum
}

// spaceMin is how many bytes a disk must have left before a cell begins.
const spaceMin = 300 << 20

// space returns [ErrSpace] if a folder is on a disk that is nearly full.
func space(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	free, err := freeSpace(folder)
	if err != nil {
		return err
	}
	if free < spaceMin {
		return fmt.Errorf("%w: %s has %d MB, expected at least %d", ErrSpace, folder, free>>20, spaceMin>>20)
	}
	return nil
}

// one plays a cell and writes its record. It fails only if the cells after it cannot be
// played either.
func (r *Runner) one(ctx context.Context, c Cell) error {
	if err := errors.Join(space(r.o.Records), space(r.work)); err != nil {
		return err
	}
	title := fmt.Sprintf("cell %d of %d", r.done+1, r.done+len(r.left))
	if left := r.estimate(r.left); left > 0 {
		title += fmt.Sprintf(", about %d min left", int(left.Minutes()+0.5))
	}
	title += ": " + c.String()
	record := &Record{Cell: c, Mark: Measured, Machine: bench.Machine(), Commit: bench.Commit(), Began: time.Now().UTC().Truncate(time.Second), LoadBefore: bench.LoadAverage(), Counted: true, Versions: r.o.versions(c.Column)}
	err := r.play(ctx, c, record, title)
	if ctx.Err() != nil {
		return ctx.Err() // a cell that was interrupted has no record
	}
	if err != nil {
		record.Failure, record.Mark = err.Error(), Failed
	}
	record.complete(r.o.part(c))
	record.Took, record.LoadAfter = time.Since(record.Began), bench.LoadAverage()
	line := fmt.Sprintf("%s: %s in %d s", c, record.Mark, int(record.Took.Seconds()+0.5))
	if x, has := r.have[c]; has && record.Mark == Disturbed && x.Mark != Disturbed {
		line += ", the earlier record is kept"
	} else if err := Save(r.o.Records, record); err != nil {
		return err
	}
	r.took[c.Column] = append(r.took[c.Column], record.Took)
	r.done++
	if record.Failure != "" {
		line += ": " + record.Failure
	}
	r.o.Tell(line)
	return nil
}

// complete adds a scenario without iterations for each one that was not played.
func (r *Record) complete(part float64) {
	for _, w := range bench.RallySeven() {
		if !slices.ContainsFunc(r.Scenarios, func(s Scenario) bool { return s.Result.Workload.Scenario == w.Scenario }) {
			r.Scenarios = append(r.Scenarios, Scenario{Result: bench.RallyResult{Workload: w}, Times: w.Times, Failure: "not played"})
		}
	}
	if part < 1 {
		r.Notes = append(r.Notes, fmt.Sprintf("%g of Rally's iterations were to be played", part))
	}
}

// play deploys a cell and plays its scenarios.
func (r *Runner) play(ctx context.Context, c Cell, record *Record, title string) (err error) {
	r.o.Progress(title+": starting", 0, 0)
	hosts, err := r.open(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hosts.Close()) }()
	record.Network = hosts.Kind()
	if record.Check, err = hosts.Measure(ctx); err != nil {
		return err
	}
	if wrong := record.Check.Wrong(); wrong != "" {
		record.Notes = append(record.Notes, "the network before the cell: "+wrong)
	}
	d, err := r.ready(ctx, c, hosts, record, title)
	defer func() { err = errors.Join(err, d.close()) }()
	if err != nil {
		return err
	}
	if record.Settings != nil && len(record.Settings.Rehearsals) > 1 {
		record.Notes = append(record.Notes, record.Settings.String())
	}
	for i, w := range bench.RallySeven() {
		w := w
		if part := r.o.part(c); part < 1 {
			w.Times = max(w.Concurrency, int(float64(w.Times)*part))
		}
		s, err := d.scenario(ctx, w, func(done, total int) {
			r.o.Progress(fmt.Sprintf("%s: %d of 7, %s", title, i+1, w.Scenario), done, total)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.Times = bench.RallySeven()[i].Times
		record.Scenarios = append(record.Scenarios, s)
		record.Mark = s.mark(record.Mark)
		if s.Holder > 1 {
			record.Notes = append(record.Notes, fmt.Sprintf("%s: instance %d wrote, not the one next to the database", w.Scenario, s.Holder))
		}
		if s.Network.Dropped > 0 {
			record.Notes = append(record.Notes, fmt.Sprintf("%s: the network lost %d packets", w.Scenario, s.Network.Dropped))
		}
		if lost := d.lost(); lost != nil {
			return errors.Join(err, lost)
		}
	}
	return nil
}

// part returns the part of Rally's iterations that is played in a cell.
func (o *Options) part(c Cell) float64 {
	switch {
	case c.High && c.Instances > 9 && o.PartHigh < 1:
		return o.PartHigh / 2
	case c.High:
		return o.PartHigh
	}
	return o.Part
}

// ready deploys a cell with settings that fit its network and its load: it rehearses, and
// deploys again with longer leases if they were too short. Its deployment is never nil.
func (r *Runner) ready(ctx context.Context, c Cell, hosts delay.Hosts, record *Record, title string) (*deployment, error) {
	if c.System != Ostiary {
		return r.deploy(ctx, c, hosts, nil)
	}
	s := c.settings(record.Check, c.copies())
	record.Settings = s
	for {
		r.o.Progress(fmt.Sprintf("%s: starting with leases of %s and %s", title, s.HolderLease, s.ReadLease), 0, 0)
		d, err := r.deploy(ctx, c, hosts, s)
		if err != nil {
			return d, err
		}
		r.o.Progress(title+": rehearsing", 0, 0)
		s.Rehearsals = append(s.Rehearsals, d.rehearse(ctx))
		if ctx.Err() != nil || len(s.Rehearsals) == rehearsalsMax || !s.lengthen() {
			return d, ctx.Err()
		}
		if err := d.close(); err != nil {
			return d, err
		}
	}
}

// busyMax is the share of the processors above which a cell is bound by them.
const busyMax = 0.85

// mark returns the mark of a cell after a scenario: that other programs disturbed a
// scenario outweighs that the cell's own programs filled the processors.
func (s *Scenario) mark(before Mark) Mark {
	switch {
	case before == Failed:
		return before
	case s.disturbed():
		return Disturbed
	case s.Busy > busyMax && before == Measured:
		return Bound
	}
	return before
}

// open makes the network of a cell.
func (r *Runner) open(c Cell) (delay.Hosts, error) {
	if !r.o.Proxies {
		n, err := delay.OpenNamespaces(c.Instances, c.way())
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, delay.ErrUnavailable) {
			return nil, err
		}
	}
	l, err := delay.OpenLoopback(c.Instances, c.way())
	return l, err
}

// sample is the state of the counters at a time.
type sample struct {
	at                        time.Time
	busy, all, outside        time.Duration
	load                      float64
	servers, database, client time.Duration
	network                   delay.Counters
	statements                Statements
	err                       error
}

func (d *deployment) sample(ctx context.Context) (s sample) {
	s.at, s.load = time.Now(), bench.LoadAverage()
	s.busy, s.all, s.err = bench.Busy()
	var err error
	s.outside, err = bench.Outside(os.Getpid())
	s.err = errors.Join(s.err, err)
	s.network, s.client = d.hosts.Counters(), bench.OwnTime()
	for _, p := range d.servers {
		s.servers += bench.Used(p.cmd.Process.Pid)
	}
	for _, p := range d.databases {
		s.database += bench.Used(p.cmd.Process.Pid)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.statements, err = d.executed(ctx)
	s.err = errors.Join(s.err, err)
	return s
}

// scenario plays one scenario. Its error is in the result as well.
func (d *deployment) scenario(ctx context.Context, w bench.RallyWorkload, progress func(done, total int)) (s Scenario, err error) {
	s.Result.Workload = w
	p := &bench.RallyPlayer{Admin: d.clients[0], Password: password, Timeout: iterationMax}
	for _, i := range d.cell.loaded() {
		p.Servers = append(p.Servers, d.clients[i])
	}
	total := w.Times * len(p.Servers)
	p.Progress = func(done int) { progress(done, total) }
	p.Times = func(w bench.RallyWorkload, took time.Duration) int {
		parallel := w.Concurrency
		if d.cell.System == Keystone {
			parallel = min(parallel, workers)
		}
		times := min(w.Times, int(d.o.ScenarioMax*time.Duration(parallel)/max(took, time.Millisecond)))
		if times == 1 && w.Times > 1 {
			times = 0 // the first one is as good
		}
		total = times * len(p.Servers)
		progress(0, total)
		return times
	}
	progress(0, total)
	defer p.Close()
	if err = p.Login(ctx); err == nil {
		var samples []sample
		s.Result, err = p.Play(ctx, w, func() { samples = append(samples, d.sample(ctx)) })
		if n := len(samples); n > 0 { // the last two are those of the result
			s.count(samples[n-2], samples[n-1])
			err = errors.Join(err, samples[n-1].err)
		}
	}
	s.Holder = d.holder(ctx)
	for _, p := range d.servers {
		s.ServersMemory += bench.ResidentOfAll(p.cmd.Process.Pid)
	}
	for _, p := range d.databases {
		s.DatabaseMemory += bench.ResidentOfAll(p.cmd.Process.Pid)
	}
	if err != nil {
		s.Failure = err.Error()
	}
	return s, err
}

// count fills in what was used between two samples.
func (s *Scenario) count(before, after sample) {
	s.Servers, s.Database, s.Client = after.servers-before.servers, after.database-before.database, after.client-before.client
	s.Load = max(before.load, after.load)
	if passed := after.at.Sub(before.at); passed > 0 {
		s.Outside = max(0, after.outside-before.outside).Seconds() / passed.Seconds()
	}
	s.Network, s.Statements = after.network.Less(before.network), after.statements.less(before.statements)
	if all := after.all - before.all; all > 0 {
		s.Busy = float64(after.busy-before.busy) / float64(all)
		s.Others = max(0, s.Busy-float64(s.Servers+s.Database+s.Client)/float64(all))
	}
}

// versions returns the versions of the programs of other projects in a column.
func (o *Options) versions(c Column) map[string]string {
	commands := map[string][]string{}
	switch c.Store {
	case PostgreSQL:
		if path, err := servers.Find("postgres"); err == nil {
			commands[PostgreSQL] = []string{path, "--version"}
		}
	case MariaDB, Galera:
		commands[MariaDB] = []string{"mariadbd", "--version"}
	}
	if c.System == Keystone {
		commands[Keystone] = []string{filepath.Join(o.Keystone, "bin", "python"), "-c", "import importlib.metadata; print(importlib.metadata.version('keystone'))"}
	}
	out := map[string]string{}
	for name, command := range commands {
		if text, err := output(command...); err == nil {
			out[name] = text
		}
	}
	return out
}
