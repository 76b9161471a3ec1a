package backups

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/backup"
)

// standard is the argument for the standard output or input.
const standard = "-"

// waitDefault is the default of --wait.
const waitDefault = time.Minute

func (a *app) backupCommand() *cobra.Command {
	var o backup.Options
	var wait time.Duration
	cmd := &cobra.Command{Use: "backup TO", Short: "Back up a data folder, also while a server has it open", Args: cobra.ExactArgs(1),
		Long: "Back up everything in the data folder of --data: all stores with their logs, their past, documents and encrypted secrets, keys of callers and Identity,\n" +
			"as of one moment. If a server has the folder open, it is asked for a copy over the socket in the folder, and serves on.\n\n" +
			"TO is a folder with the backup. The command copies the files that TO lacks, so repeat it to bring the backup up to date, or after it was interrupted.\n" +
			"Until it has ended, TO has the backup before. TO can be -: the backup is then written to the standard output as a tar.\n\n" +
			"The backup does not have the key of the secrets, nor the folders with the keys of Identity's tokens: keep copies of those in another place.\n" +
			"\"ostiary verify TO\" proves it, and \"ostiary restore TO\" restores it. Of a node of a cluster, it has the copy of the node, and can be restored anywhere.",
		Example: "  ostiary backup --data /var/lib/ostiary /backup/ostiary\n  ostiary backup --data /var/lib/ostiary - | age -r RECIPIENT > ostiary.tar.age",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.RefuseNegative(cmd.Flags()); err != nil {
				return err
			}
			return a.backup(cmd.Context(), args[0], o, wait)
		}}
	f := cmd.Flags()
	cli.BytesVar(f, &o.Rate, "rate", 0, "bytes to copy in a second at most, for example 50MiB; 0 means no limit")
	f.DurationVar(&wait, "wait", waitDefault, "how long to wait on a node of a cluster until its copy has all secrets")
	f.BoolVar(&o.Replace, "replace", false, "replace the backup in TO although it is that of another data folder: it has no store of this one")
	return cmd
}

// made is what the command backup prints.
type made struct {
	To string `json:"to"`
	backup.Done
	Made    time.Time      `json:"made"`
	Content backup.Content `json:"content"`
	Key     string         `json:"secretKey,omitempty"`
}

func (a *app) backup(ctx context.Context, to string, o backup.Options, wait time.Duration) error {
	line := a.Progress()
	defer line.End()
	o.Progress = show(line, "backing up")
	return a.withCheckpoint(ctx, "backup to "+to, wait, func(c *checkpoint) (err error) {
		m := &backup.Manifest{Made: c.at, Program: cli.Version()["version"], Copy: c.Copy, Closed: c.Closed, SecretKey: c.SecretKey, Content: c.content}
		out := made{To: to, Made: c.at, Content: c.content, Key: c.SecretKey}
		if to == standard {
			if _, err = backup.Stream(ctx, c.dir, a.Out, m, o); err == nil {
				a.note(ctx, c.at)
			}
			return err
		}
		if out.Done, err = backup.Write(ctx, c.dir, to, m, o); err != nil {
			return err
		}
		a.note(ctx, c.at)
		line.End()
		return a.Print(out, func(w io.Writer) {
			cli.Printf(w, "backed up %s to %s as of %s: %s copied (%d bytes), %d kept, %d bytes in all\n", cli.Plural(c.content.Stores, "store"), to, cli.Stamp(c.at), cli.Plural(out.Files, "file"), out.Bytes, out.Kept, out.Length)
			if c.content.Secrets > 0 {
				cli.Printf(w, "its %s need the key with fingerprint %s, which is not in it: keep a copy of the file of the key in another place\n", cli.PluralOf(c.content.Secrets, "secret", "secrets"), orUnknown(c.SecretKey))
			}
		})
	})
}

// orUnknown returns a fingerprint as text.
func orUnknown(fingerprint string) string {
	if fingerprint == "" {
		return "(unknown: the source had no key)"
	}
	return fingerprint
}

// show returns what shows progress on a line.
func show(line *cli.ProgressLine, title string) backup.Progress {
	return func(done, total int64) {
		line.Show(fmt.Sprintf("%s %d MiB", title, total>>20), int(done>>10), int(total>>10))
	}
}
