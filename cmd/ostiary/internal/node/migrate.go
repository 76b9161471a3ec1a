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
	"github.com/ostiary/ostiary/internal/cluster/move"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
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
			m, err := a.newMigration(args[0], args[1], o)
			if err != nil {
				return err
			}
			err = m.run(cmd.Context())
			m.line.End()
			if err != nil {
				return err
			}
			return a.Print(migrated{m.move.From.Text, m.move.To.Text, m.move.Done}, m.print)
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

// migrated is what the command migrate has done, as it prints it.
type migrated struct {
	From string `json:"from"`
	To   string `json:"to"`
	move.Done
}

// migration is one run of the command migrate.
type migration struct {
	*app
	migrateOptions
	from, to end
	line     *cli.ProgressLine
	move     move.Move
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

// folder is a data folder of this program.
type folder struct{ *cli.App }

// Path implements [move.Folder].
func (f folder) Path() string { return f.Data }

// Temporary returns a function that calls another one with a folder, which is removed
// afterwards, or by the next command if this one is killed.
func Temporary(a *cli.App) func(f func(move.Folder) error) error {
	return func(f func(move.Folder) error) (err error) {
		made, remove, err := cli.Temporary(temporaryPrefix)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove()) }()
		at, err := a.Of(filepath.Join(made, "copy"))
		if err != nil {
			return err
		}
		return f(folder{at})
	}
}

// temporaryPrefix is what the names of temporary folders begin with.
const temporaryPrefix = "ostiary-migrate-"

// endOf returns an end of a move. Its folder is that of --data. stores is FROM if that is a
// folder; nil if it is a log.
func (a *app) endOf(e *end, stores move.Folder) move.End {
	if !e.isLog {
		return move.End{Text: e.shown(), Folder: folder{a.App}}
	}
	return move.End{Text: e.shown(), Open: func(ctx context.Context) (log sharedlog.Log, node storage.NodeID, err error) {
		if e.node == "" {
			log, err = a.OpenLogOf(ctx, e.name, e.text)
			return log, node, err
		}
		return a.openNode(ctx, e, stores)
	}}
}

// openNode opens the log in the data folder of a node of a cluster without a database. The node
// must be the only one that votes: it then has everything that the cluster has decided, and once
// it notes that the log was moved, no other node can go on.
func (a *app) openNode(ctx context.Context, e *end, stores move.Folder) (sharedlog.Log, storage.NodeID, error) {
	none := storage.NodeID{}
	if h := cli.ServerOf(e.node); h != nil {
		return nil, none, fmt.Errorf("%w: a server (process %d) has the folder %s open: stop it first", cli.ErrUsage, h.PID, e.node)
	}
	at, err := a.Of(e.node)
	if err != nil {
		return nil, none, err
	}
	id, name := none, filepath.Join(e.node, quorum.FolderName)
	if _, err := os.Stat(name); err != nil {
		if id, err = move.NewNode(ctx, folder{at}, stores); err != nil {
			return nil, none, err
		}
	}
	log, err := quorum.OpenAlone(name, id)
	if errors.Is(err, quorum.ErrVoters) {
		err = fmt.Errorf("%w. Name the folder of the node that is to be the last voter, after the other nodes were started again with --vote=false, one after the other, and all nodes were stopped. "+
			"If those are lost, see \"ostiary node recover\"", err)
	}
	if err != nil {
		return nil, none, fmt.Errorf("%s %s: %w", e.name, e.text, err)
	}
	return log, log.ID(), nil
}

func (a *app) newMigration(from, to string, o migrateOptions) (*migration, error) {
	m := &migration{app: a, migrateOptions: o, line: a.Progress(), from: newEnd("FROM", from), to: newEnd("TO", to)}
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
	if err := m.cleanNodes(); err != nil {
		return nil, err
	}
	m.move = move.Move{Force: o.force, Live: o.live, Progress: m.line.Show, Temporary: Temporary(a.App)}
	var stores move.Folder
	if !m.from.isLog {
		stores = folder{a.App}
	}
	m.move.From, m.move.To = a.endOf(&m.from, stores), a.endOf(&m.to, stores)
	if o.work != "" {
		at, err := a.Of(o.work)
		if err != nil {
			return nil, err
		}
		m.move.Work = folder{at}
	}
	return m, nil
}

// run moves the stores, or compares them.
func (m *migration) run(ctx context.Context) (err error) {
	switch {
	case m.verify:
		return m.move.Verify(ctx)
	case m.live && m.from.node != "":
		return m.throughServer(ctx, m.from.node)
	case m.live && !m.from.isLog:
		return m.throughServer(ctx, m.Data)
	}
	if err = m.move.Run(ctx); errors.Is(err, move.ErrSame) {
		err = fmt.Errorf("%w: %w", cli.ErrUsage, err)
	}
	return err
}

// cleanNodes cleans the folders of nodes, and checks what needs no log.
func (m *migration) cleanNodes() error {
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
		if errors.Is(err, fs.ErrNotExist) && (e == &m.from || m.verify) {
			return fmt.Errorf("%w: %s %s is not the data folder of a node of a cluster without a database", cli.ErrUsage, e.name, e.node)
		}
	}
	if !m.from.isLog && m.to.node != "" && m.to.node != m.Data && !m.verify {
		return fmt.Errorf("%w: TO is %s, expected %s%s, because a folder becomes a node in place", cli.ErrUsage, m.to.text, nodePrefix, m.Data)
	}
	return nil
}

func (m *migration) print(w io.Writer) {
	d, from, to := &m.move.Done, m.move.From.Text, m.move.To.Text
	if m.verify {
		cli.Printf(w, "%s and %s have the same: ", from, to)
	} else {
		cli.Printf(w, "moved from %s to %s: ", from, to)
	}
	if m.live && d.Last == 0 {
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
	case m.verify:
	case m.to.node != "":
		m.printNode(w)
	case !m.from.isLog:
		cli.Printf(w, "the folder %s is now the copy of a node: start the server with --data %s and OSTIARY_LOG or --log %s\n", from, from, to)
	case !m.to.isLog:
		cli.Printf(w, "start the server with --data %s and without --log\n", to)
		if d.Keyless {
			cli.Printf(w, "the secrets need the key of the nodes: copy it to %s first\n", m.SecretKeyFile())
		}
	default:
		cli.Printf(w, "start the nodes with OSTIARY_LOG or --log %s; their folders stay valid\n", to)
	}
}

// printNode prints how the first node of a new cluster is started.
func (m *migration) printNode(w io.Writer) {
	cli.Printf(w, "start the first node with --data %s --cluster; other nodes join with \"ostiary node token\"\n", m.to.node)
	at, err := m.App.Of(m.to.node)
	if err != nil || m.move.Done.Secrets == 0 {
		return
	}
	if key, err := at.ReadSecretKey(); err == nil && key == nil {
		cli.Printf(w, "the secrets need the key of the nodes: copy it to %s first\n", at.SecretKeyFile())
	}
}

// printLive prints the rest of what a move of nodes that run has done.
func (m *migration) printLive(w io.Writer) {
	d := &m.move.Done
	if d.Last > 0 {
		cli.Printf(w, "cluster %s, segment %d, hash of all rows %s; the same segments up to %d\n", d.Cluster, d.Segment, d.State, d.Last)
	}
	cli.Printf(w, "%s with it now; start them with OSTIARY_LOG or --log %s the next time\n", cli.PluralOf(d.Nodes, "node goes on", "nodes go on"), m.move.To.Text)
}
