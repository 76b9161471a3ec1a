package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/backup"
	"github.com/ostiary/ostiary/internal/cluster/move"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

func (a *app) verifyCommand() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{Use: "verify [BACKUP]", Short: "Prove that a backup, or a data folder, is whole and undamaged", Args: cobra.MaximumNArgs(1),
		Long: "Prove that a backup is whole and undamaged, or without an argument, that the data folder of --data is, also while a server has it open.\n\n" +
			"Each file of a backup is compared with its checksum. Then all rows are read: the hash of each entry of a log with the next entry, and that of the last\n" +
			"one with the head; the rows that the log has made with those that are there; names, aliases and keys with what they lead to; each row with its checksum.\n" +
			"The hash of all rows is the same for all folders, nodes and databases with the same stores. Nothing is changed.",
		Example: "  ostiary verify /backup/ostiary\n  ostiary verify --data /var/lib/ostiary",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.verifyBackup(cmd.Context(), args[0])
			}
			return a.withCheckpoint(cmd.Context(), "verify", wait, func(c *checkpoint) error {
				return a.verify(cmd.Context(), verified{Of: a.Data, Made: c.at}, c.view, c.content)
			})
		}}
	cmd.Flags().DurationVar(&wait, "wait", waitDefault, "how long to wait on a node of a cluster until its copy has all secrets")
	return cmd
}

// verified is what the command verify prints.
type verified struct {
	Of    string    `json:"of"`
	Made  time.Time `json:"made"`
	Files int       `json:"files,omitempty"`
	backup.Proof
	Rows string `json:"rows"` // SHA-256 of all rows
}

func (a *app) verifyBackup(ctx context.Context, from string) (err error) {
	b, err := backup.Open(from)
	if errors.Is(err, storage.ErrFormat) {
		if _, other := os.Stat(filepath.Join(from, "OSTIARY")); other == nil {
			return fmt.Errorf("%w: %s is a data folder, expected a backup: verify it with --data %s", cli.ErrUsage, from, from)
		}
	}
	if err != nil {
		return err
	}
	line := a.Progress()
	defer line.End()
	if err := b.Check(show(line, "reading")); err != nil {
		return err
	}
	return a.withView(ctx, b, func(view *cli.App) error {
		return a.verify(ctx, verified{Of: from, Made: b.Made, Files: len(b.Files)}, view, b.Content)
	})
}

// withView calls f with the program on a folder with the content of a backup, which is removed
// afterwards.
func (a *app) withView(ctx context.Context, b *backup.Backup, f func(*cli.App) error) (err error) {
	parent, remove, err := cli.Temporary("ostiary-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	view, err := a.viewOf(ctx, filepath.Join(parent, viewName), b.Copy, b.ViewIn)
	if err != nil {
		return err
	}
	return f(view)
}

// verify proves the data in a folder, which has a content, and prints that.
func (a *app) verify(ctx context.Context, out verified, at *cli.App, want backup.Content) error {
	line := a.Progress()
	defer line.End()
	var err error
	if out.Proof, out.Rows, err = prove(ctx, at, want, line); err != nil {
		return fmt.Errorf("%s: %w", out.Of, err)
	}
	line.End()
	return a.Print(out, func(w io.Writer) {
		cli.Printf(w, "%s as of %s is whole: %s, %s, %s, %d attributes, %d documents, %s, %d rows of the past\n", out.Of, cli.Stamp(out.Made), cli.Plural(out.Stores, "store"), cli.PluralOf(out.Entries, "entry", "entries"),
			cli.Plural(out.Tuples, "tuple"), out.Attributes, out.Documents, cli.Plural(out.Secrets, "secret"), out.Past)
		cli.Printf(w, "hash of all rows %s\n", out.Rows)
	})
}

// prove proves the data in a folder, which has a content, and returns the hash of all rows.
func prove(ctx context.Context, at *cli.App, want backup.Content, line *cli.ProgressLine) (p backup.Proof, rows string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = withDriver(ctx, at, func(d *pebble.Driver) error {
		have, err := backup.ContentOf(ctx, d.Driver)
		if err != nil {
			return err
		}
		if have.Heads != want.Heads || have.Secrets != want.Secrets {
			return fmt.Errorf("%w: the data has %d stores and %d secrets, with heads of hash %s; expected %d stores and %d secrets with %s", storage.ErrDamaged, have.Stores, have.Secrets, have.Heads, want.Stores, want.Secrets, want.Heads)
		}
		var content move.Content
		read := make(chan error, 1)
		go func() {
			var err error
			content, err = move.ReadContent(ctx, d.Driver, func(uint64) {})
			read <- err
		}()
		p, err = backup.Prove(ctx, d.Driver, func(rows int) { line.Show("verifying rows", rows, 0) })
		if err != nil {
			cancel()
			<-read
			return err
		}
		rows = ""
		if err := <-read; err != nil {
			return err
		}
		rows = content.State.String()
		return nil
	})
	return p, rows, err
}
