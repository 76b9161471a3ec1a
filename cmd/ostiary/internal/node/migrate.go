package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage/kv"
)

func (a *app) migrateCommand() *cobra.Command {
	var o migrateOptions
	cmd := &cobra.Command{Use: "migrate FROM TO", Short: "Move all stores between a data folder, databases and a cluster", Args: cobra.ExactArgs(2),
		Long: "Move all stores with their logs, their past and their secrets. FROM and TO are each one of:\n" +
			"  FOLDER                   the data folder of a server\n" +
			"  postgres://USER@HOST/NAME, mysql://USER@HOST/NAME\n" +
			"                           the URL of a shared log\n" +
			"  cluster:FOLDER           the data folder of a node of a cluster without a database\n" +
			"Tokens, cursors and revisions stay valid.\n\n" +
			"Without --live, stop all servers of FROM first. TO must be new: an empty database, or a folder that is missing. The command reads TO back and compares it with FROM:\n" +
			"the hash of each store's last entry, with which all entries before it are proved, and the hash of all rows. Then FROM refuses to be served:\n" +
			"a folder has become the copy that a node on TO has, so serve --data FROM --log TO starts at once; a log remembers that it was moved.\n\n" +
			"cluster:FOLDER as TO makes the first node of a new cluster: start it with --cluster, and let others join. A folder becomes one in place: migrate FOLDER cluster:FOLDER.\n" +
			"As FROM, its node must be the only one that votes, so that it has every write: start the other nodes with --vote=false, one after the other, and then stop all.\n\n" +
			"With --live, TO is a database, and the nodes of FROM run on. Start each of them with --next-log TO first (or OSTIARY_NEXT_LOG), one after the\n" +
			"other: they go on with TO when it has everything. Writes wait about a second then, and no request fails. FROM can be the folder of a server, and\n" +
			"cluster:FOLDER that of any node of a cluster without a database: the command then asks the server that has the folder open.\n\n" +
			"Repeat the command if it was interrupted: it does the rest. To move back, exchange FROM and TO. Between two databases it needs as much space\n" +
			"on this machine as the stores have, see --work.",
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.newMove(args[0], args[1], o)
			if err != nil {
				return err
			}
			defer m.line.End()
			if o.verify {
				err = m.verify(cmd.Context())
			} else {
				err = m.run(cmd.Context())
			}
			m.line.End()
			if err != nil {
				return err
			}
			return a.Print(m.done, m.print)
		}}
	f := cmd.Flags()
	f.BoolVar(&o.verify, "verify", false, "only compare what FROM and TO have")
	f.BoolVar(&o.force, "force", false, "do not check whether nodes have reported to FROM in the last 30 seconds, because they were killed, and whether FROM was moved before, because that place is lost")
	f.BoolVar(&o.live, "live", false, "move to a database while the nodes of FROM run, which were started with --next-log TO")
	f.StringVar(&o.work, "work", "", "folder for a copy of the stores on the way between two databases; it is kept if the command is interrupted, and removed at the end; default: a temporary one")
	return cmd
}

// migrateOptions are the flags of the command migrate.
type migrateOptions struct {
	verify, force, live bool
	work                string
}

// Migrated is what the command migrate has done, as it prints it.
type Migrated struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Cluster string `json:"cluster"`
	// Segment is the last segment of the log.
	Segment uint64 `json:"segment"`
	Stores  int    `json:"stores"`
	Secrets int    `json:"secrets"`
	Bytes   uint64 `json:"bytes"`
	// State is the hash of all rows, which FROM and TO have alike.
	State string `json:"state"`
}

// move is one run of the command migrate.
type move struct {
	*app
	migrateOptions
	from, to end
	line     *cli.ProgressLine
	done     Migrated
	// keyless is true if the folder of TO has no key, and its secrets need one.
	keyless bool
	// nodes is the number of nodes that have gone on with TO, and last the last segment of
	// FROM: all before it are the same.
	nodes int
	last  uint64
	// report gets the progress of a move in a server, and snapshot stores a snapshot in FROM.
	// They are nil in a command of its own.
	report   func(title string, done, total int)
	snapshot func(context.Context) error
}

// end is FROM or TO.
type end struct {
	name, text string
	isLog      bool
	// node is the data folder of the node that has the log; "" if the log is in a database.
	node string
}

// nodePrefix is what the text of an end with a node begins with.
const nodePrefix = "cluster:"

func newEnd(name, text string) end {
	node, isNode := strings.CutPrefix(text, nodePrefix)
	if isNode && !strings.HasPrefix(node, "//") {
		return end{name, text, true, node}
	}
	return end{name: name, text: text, isLog: strings.Contains(text, "://")}
}

// shown is the end for messages, without a password.
func (e *end) shown() string {
	if e.isLog && e.node == "" {
		return sharedlog.ShownAddress(e.text)
	}
	return e.text
}

func (a *app) newMove(from, to string, o migrateOptions) (*move, error) {
	m := &move{app: a, migrateOptions: o, line: a.Progress()}
	m.from, m.to = newEnd("FROM", from), newEnd("TO", to)
	m.done.From, m.done.To = m.from.shown(), m.to.shown()
	for _, e := range []*end{&m.from, &m.to} {
		if folder := strings.TrimPrefix(e.text, nodePrefix); folder == "" || folder == cli.InMemory {
			return nil, fmt.Errorf("%w: %s is %q, expected a data folder, the URL of a shared log, or %sFOLDER", cli.ErrUsage, e.name, e.text, nodePrefix)
		}
	}
	switch {
	case !m.from.isLog && !m.to.isLog:
		return nil, fmt.Errorf("%w: FROM and TO are folders, expected the URL of a shared log, or %sFOLDER, as one of them; the folder of a stopped server can be copied", cli.ErrUsage, nodePrefix)
	case from == to:
		return nil, fmt.Errorf("%w: FROM and TO are the same", cli.ErrUsage)
	case o.live && (!m.to.isLog || m.to.node != ""):
		return nil, fmt.Errorf("%w: --live needs the URL of a database as TO: stop the servers of FROM, and move without --live", cli.ErrUsage)
	case o.live && (o.force || o.verify):
		return nil, fmt.Errorf("%w: --live with --force or --verify, expected it alone", cli.ErrUsage)
	case o.work != "" && !(m.from.isLog && m.to.isLog):
		return nil, fmt.Errorf("%w: --work needs two shared logs, because a folder needs no copy on the way", cli.ErrUsage)
	}
	for _, e := range []*end{&m.from, &m.to} {
		if !e.isLog { // files next to the folder have its name
			m.Data = e.text
			if err := m.CleanData(); err != nil {
				return nil, err
			}
		}
	}
	return m, m.cleanNodes()
}

// cleanNodes cleans the folders of nodes, and checks what needs no log.
func (m *move) cleanNodes() error {
	for _, e := range []*end{&m.from, &m.to} {
		if e.node == "" {
			continue
		}
		at, err := m.App.Of(e.node)
		if err != nil {
			return err
		}
		e.node = at.Data
		_, err = os.Stat(filepath.Join(e.node, quorum.FolderName))
		if errors.Is(err, fs.ErrNotExist) && (e == &m.from || m.migrateOptions.verify) {
			return fmt.Errorf("%w: %s %s is not the data folder of a node of a cluster without a database", cli.ErrUsage, e.name, e.node)
		}
	}
	if !m.from.isLog && m.to.node != "" && m.to.node != m.Data && !m.migrateOptions.verify {
		return fmt.Errorf("%w: TO is %s, expected %s%s, because a folder becomes a node in place", cli.ErrUsage, m.to.text, nodePrefix, m.Data)
	}
	return nil
}

func (m *move) print(w io.Writer) {
	d := &m.done
	if m.migrateOptions.verify {
		cli.Printf(w, "%s and %s have the same: ", d.From, d.To)
	} else {
		cli.Printf(w, "moved from %s to %s: ", d.From, d.To)
	}
	if m.live && m.last == 0 {
		cli.Printf(w, "an earlier command has proved it\n")
	} else {
		cli.Printf(w, "%s, %s, %d bytes of rows\n", cli.Plural(d.Stores, "store"), cli.Plural(d.Secrets, "secret"), d.Bytes)
	}
	if m.live {
		m.printLive(w)
		return
	}
	if d.Segment > 0 {
		cli.Printf(w, "cluster %s, segment %d, ", d.Cluster, d.Segment)
	}
	cli.Printf(w, "hash of all rows %s\n", d.State)
	switch {
	case m.migrateOptions.verify:
	case m.to.node != "":
		m.printNode(w)
	case !m.from.isLog:
		cli.Printf(w, "the folder %s is now the copy of a node: start the server with --data %s and OSTIARY_LOG or --log %s\n", d.From, d.From, d.To)
	case !m.to.isLog:
		cli.Printf(w, "start the server with --data %s and without --log\n", d.To)
		if m.keyless {
			cli.Printf(w, "the secrets need the key of the nodes: copy it to %s first\n", m.SecretKeyFile())
		}
	default:
		cli.Printf(w, "start the nodes with OSTIARY_LOG or --log %s; their folders stay valid\n", d.To)
	}
}

// printNode prints how the first node of a new cluster is started.
func (m *move) printNode(w io.Writer) {
	cli.Printf(w, "start the first node with --data %s --cluster; other nodes join with \"ostiary node token\"\n", m.to.node)
	at, err := m.App.Of(m.to.node)
	if err != nil || m.done.Secrets == 0 {
		return
	}
	if key, err := at.ReadSecretKey(); err == nil && key == nil {
		cli.Printf(w, "the secrets need the key of the nodes: copy it to %s first\n", at.SecretKeyFile())
	}
}

// printLive prints the rest of what a move of nodes that run has done.
func (m *move) printLive(w io.Writer) {
	d := &m.done
	if m.last > 0 {
		cli.Printf(w, "cluster %s, segment %d, hash of all rows %s; the same segments up to %d\n", d.Cluster, d.Segment, d.State, m.last)
	}
	cli.Printf(w, "%s with it now; start them with OSTIARY_LOG or --log %s the next time\n", cli.PluralOf(m.nodes, "node goes on", "nodes go on"), d.To)
}

// run moves the stores.
func (m *move) run(ctx context.Context) error {
	switch {
	case m.live && m.from.node != "":
		return m.throughServer(ctx, m.from.node)
	case m.live && !m.from.isLog:
		return m.throughServer(ctx, m.Data)
	case !m.from.isLog:
		return m.folderToLog(ctx)
	case !m.to.isLog:
		return m.logToFolder(ctx)
	}
	return m.logToLog(ctx)
}

// note sets what is printed.
func (m *move) note(c *replica.Content) {
	d := &m.done
	d.Stores, d.Secrets, d.Bytes, d.State = len(c.Stores), c.Secrets, c.Bytes, c.State.String()
	if c.At.Sequence > 0 {
		d.Cluster, d.Segment = c.Cluster.String(), c.At.Sequence
	}
}

// verify compares the content of both ends.
func (m *move) verify(ctx context.Context) error {
	var from replica.Content
	if err := m.content(ctx, &m.from, &from); err != nil {
		return fmt.Errorf("%s: %w", m.from.shown(), err)
	}
	return m.verifyTo(ctx, &from)
}

// verifyTo compares the content of TO with that of FROM.
func (m *move) verifyTo(ctx context.Context, from *replica.Content) error {
	var to replica.Content
	if err := m.content(ctx, &m.to, &to); err != nil {
		return fmt.Errorf("%s: %w", m.to.shown(), err)
	}
	m.note(&to)
	if m.note(from); from.At.Sequence == 0 {
		m.done.Segment, m.done.Cluster = to.At.Sequence, to.Cluster.String()
	}
	return from.Compare(&to)
}

// content reads the content of an end.
func (m *move) content(ctx context.Context, e *end, into *replica.Content) error {
	if e.isLog {
		return m.withLog(ctx, e, func(log *movedLog) (err error) {
			*into, err = m.contentOfLog(ctx, log)
			return err
		})
	}
	driver, err := m.OpenFolder(ctx)
	if errors.Is(err, kv.ErrCopy) {
		driver, err = m.OpenCopy(ctx)
	}
	if err != nil {
		return err
	}
	*into, err = m.read(ctx, e.shown(), driver.Driver)
	return errors.Join(err, driver.Close())
}

// read reads the content of a driver.
func (m *move) read(ctx context.Context, what string, data *kv.Driver) (replica.Content, error) {
	return replica.ReadContent(ctx, data, func(bytes uint64) { m.show("reading "+what, bytes) })
}

// show shows the progress of a step in MiB; total is known once FROM was read.
func (m *move) show(step string, bytes uint64) {
	m.progress(step+" (MiB)", int(bytes>>20), int(m.done.Bytes>>20))
}

// progress shows the progress of a step.
func (m *move) progress(title string, done, total int) {
	m.line.Show(title, done, total)
	if m.report != nil {
		m.report(title, done, total)
	}
}

// contentOfLog reads the content of a log from a new copy of it.
func (m *move) contentOfLog(ctx context.Context, log *movedLog) (c replica.Content, err error) {
	err = m.withCopyOf(ctx, log, func(has *kv.Driver) (err error) {
		c, err = m.read(ctx, log.shown, has)
		return err
	})
	return c, err
}

// withCopyOf calls f with a new copy of a log, with everything that the log has.
func (m *move) withCopyOf(ctx context.Context, log *movedLog, f func(*kv.Driver) error) error {
	return m.withTemporary(func(folder string) error {
		at, err := m.App.Of(folder)
		if err != nil {
			return err
		}
		place, err := m.fill(ctx, at, log)
		if err != nil {
			return err
		}
		driver, err := at.OpenCopy(ctx)
		if err != nil {
			return err
		}
		return errors.Join(f(driver.Driver), driver.Close(), log.Forget(context.WithoutCancel(ctx), place.Node))
	})
}

// withTemporary calls f with a folder that is removed afterwards, or by the next command if
// this one is killed.
func (m *move) withTemporary(f func(folder string) error) (err error) {
	folder, remove, err := cli.Temporary(temporaryPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	return f(filepath.Join(folder, "copy"))
}

// temporaryPrefix is what the names of temporary folders begin with.
const temporaryPrefix = "ostiary-migrate-"
