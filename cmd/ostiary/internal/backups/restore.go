package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/backup"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/keyring"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage/pebble"
)

// restoreOptions are the flags of the command restore.
type restoreOptions struct {
	dry, keepTokens bool
	old             string
}

func (a *app) restoreCommand() *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{Use: "restore FROM", Short: "Restore a backup into a new data folder", Args: cobra.ExactArgs(1),
		Long: "Restore the backup in the folder FROM into the data folder of --data, which must be missing or empty. FROM can be -: the tar of a backup on the standard input.\n\n" +
			"All files and rows are proved first, as by \"ostiary verify\". The folder appears when it is whole; until then there is none. A server can serve it then, and\n" +
			"\"ostiary migrate\" brings it to a database or makes it the first node of a new cluster.\n\n" +
			"Everything after the backup is gone, and tokens of later revisions are refused. All tokens of the Identity API end, because some of them may have been revoked\n" +
			"since, unless --keep-tokens is set. Keys of callers that were revoked since the backup count again: --old names the folder that was lost, if it is still there,\n" +
			"and the command lists what it had besides and which keys these are. A folder of a server that required authentication requires it.",
		Example: "  ostiary restore /backup/ostiary --data /var/lib/ostiary\n  age -d -i KEY ostiary.tar.age | ostiary restore - --data /var/lib/ostiary",
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.Data == cli.InMemory {
				return fmt.Errorf("%w: --data is %q, expected a new data folder", cli.ErrUsage, a.Data)
			}
			if err := a.CleanData(); err != nil {
				return err
			}
			return a.restore(cmd.Context(), args[0], o)
		}}
	f := cmd.Flags()
	f.BoolVar(&o.dry, "dry-run", false, "only prove the backup, and list what differs from --old, or from the folder of --data if it exists")
	f.BoolVar(&o.keepTokens, "keep-tokens", false, "let tokens of the Identity API count that were issued before, also those that were revoked since the backup")
	f.StringVar(&o.old, "old", "", "the data folder that is replaced, to list what it has and the backup has not; a server can have it open")
	return cmd
}

// restored is what the command restore prints.
type restored struct {
	From string    `json:"from"`
	Data string    `json:"data"`
	Made time.Time `json:"made"`
	backup.Proof
	Rows string `json:"rows"`
	// SecretKey is the fingerprint of the key that is missing next to the folder.
	SecretKey string `json:"missingSecretKey,omitempty"`
	Closed    bool   `json:"closed"`
	// TokensEnded is true if the tokens of the Identity API have ended.
	TokensEnded bool `json:"tokensEnded"`
	// FernetKeys is the folder with the new keys of these tokens, if there were none.
	FernetKeys string `json:"fernetKeys,omitempty"`
	// Keys are the names of all keys of callers, and Revived those that count again.
	Keys    []string     `json:"keys"`
	Revived []string     `json:"revived"`
	Lost    []difference `json:"lost"`
	Old     string       `json:"old,omitempty"`
}

// restore restores a backup, or shows what that would do.
func (a *app) restore(ctx context.Context, from string, o restoreOptions) (err error) {
	out := restored{From: from, Data: a.Data, Old: o.old, Keys: []string{}, Revived: []string{}, Lost: []difference{}}
	entries, err := os.ReadDir(a.Data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch {
	case len(entries) > 0 && !o.dry:
		return a.occupied()
	case len(entries) > 0 && o.old == "":
		out.Old = a.Data
	}
	if err := os.MkdirAll(filepath.Dir(a.Data), 0o700); err != nil {
		return err
	}
	parent, remove, err := cli.TemporaryIn(filepath.Dir(a.Data), filepath.Base(a.Data)+".restore-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	line := a.Progress()
	defer line.End()
	b, err := a.source(ctx, from, filepath.Join(parent, "tar"))
	if err != nil {
		return err
	}
	out.Made, out.Closed = b.Made, b.Closed
	if out.SecretKey, err = a.checkKey(b); err != nil {
		return err
	}
	at, err := a.viewOf(ctx, filepath.Join(parent, dataName), b.Copy, func(dir string) error { return b.CopyTo(dir, show(line, "copying")) })
	if err != nil {
		return err
	}
	if out.Proof, out.Rows, err = prove(ctx, at, b.Content, line); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	line.End()
	if err := a.compare(ctx, at, &out); err != nil {
		return err
	}
	if !o.dry {
		if out.SecretKey == "" {
			at.SecretKey = a.SecretKeyFile()
			if _, err := os.Stat(at.SecretKey); errors.Is(err, fs.ErrNotExist) {
				at.SecretKey = ""
			}
		}
		if err := a.finish(ctx, at, o, &out); err != nil {
			return err
		}
	}
	return a.Print(out, func(w io.Writer) { out.print(w, o) })
}

// occupied returns the error for a folder that is not empty.
func (a *app) occupied() error {
	if h := cli.ServerOf(a.Data); h != nil {
		return fmt.Errorf("%w: a server (process %d) has the folder %s open: stop it and move the folder away, or name another one with --data", cli.ErrUsage, h.PID, a.Data)
	}
	return fmt.Errorf("%w: the folder %s is not empty: move it away (and name it with --old, to list what it has besides), or name another one with --data", cli.ErrUsage, a.Data)
}

// source opens the backup of FROM; a tar is extracted to a folder first.
func (a *app) source(ctx context.Context, from, dir string) (*backup.Backup, error) {
	if from == standard {
		return backup.Extract(ctx, a.In, dir)
	}
	return backup.Open(from)
}

// checkKey fails if the key next to the folder is not that of the secrets of the backup. It
// returns the fingerprint of the key if it is missing.
func (a *app) checkKey(b *backup.Backup) (missing string, err error) {
	key, err := a.ReadSecretKey()
	switch {
	case err != nil:
		return "", err
	case b.SecretKey == "" || Fingerprint(key) == b.SecretKey:
		return "", nil
	case key == nil:
		return b.SecretKey, nil
	}
	return "", fmt.Errorf("%w: the key in %s has fingerprint %s, and the secrets of the backup need the one with %s: put that in its place, or name it with --secret-key-file", cli.ErrUsage, a.SecretKeyFile(), Fingerprint(key), b.SecretKey)
}

// finish changes what a backup must not have as it was, and gives the folder its name.
func (a *app) finish(ctx context.Context, at *cli.App, o restoreOptions, out *restored) error {
	err := at.WithEngine(ctx, false, func(e *ostiary.Engine) error {
		if out.Closed {
			if err := callers.New(e, callers.Options{}).Expect(ctx, callers.Expected{Source: "a backup of a server"}); err != nil {
				return err
			}
		}
		if o.keepTokens {
			return nil
		}
		store, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore)
		if errors.Is(err, authz.ErrNoStore) {
			return nil
		}
		if err != nil {
			return err
		}
		service, err := identity.Open(ctx, store, settings.Deployment{})
		if err != nil {
			return err
		}
		out.TokensEnded = true
		// An error means that the system store has keys, and the key of the secrets is missing.
		if keys, err := keyring.New(e, nil).Keys(ctx, keyring.Tokens); keys == nil && err == nil {
			if err := a.makeFernetKeys(out); err != nil {
				return err
			}
		}
		return service.RevokeAllTokens(ctx)
	})
	if err != nil {
		return err
	}
	if err := cli.GiveTo(filepath.Dir(a.Data), at.Data); err != nil {
		return err
	}
	if err := os.Remove(a.Data); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return err
	}
	if err := os.Rename(at.Data, a.Data); err != nil {
		return err
	}
	return backup.SyncFolder(filepath.Dir(a.Data))
}

// makeFernetKeys makes keys of the tokens of Identity if they were lost with the folder. No token
// of before counts, so new keys take nothing from anybody, and without keys every login fails.
func (a *app) makeFernetKeys(out *restored) error {
	folders := []string{a.KeystoneKeysFolder().Folder, a.KeystoneReceiptsFolder().Folder}
	if _, err := os.Stat(folders[0]); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := a.SetupKeystoneKeys(); err != nil {
		return err
	}
	out.FernetKeys = folders[0]
	for _, folder := range folders {
		if err := cli.GiveTo(filepath.Dir(folder), folder); err != nil {
			return err
		}
	}
	return nil
}

// compare lists the keys of a restored folder, and what the old folder has besides.
func (a *app) compare(ctx context.Context, at *cli.App, out *restored) error {
	ours, err := keysOf(ctx, at)
	if err != nil {
		return err
	}
	for _, k := range ours {
		out.Keys = append(out.Keys, k.Name)
	}
	if out.Old == "" {
		return nil
	}
	other, err := a.Of(out.Old)
	if err != nil {
		return err
	}
	old := &app{other}
	return old.withCheckpoint(ctx, "compare with a backup", waitDefault, func(c *checkpoint) error {
		theirs, err := keysOf(ctx, c.view)
		if err != nil {
			return err
		}
		for _, k := range callers.Revived(ours, theirs) {
			out.Revived = append(out.Revived, k.Name)
		}
		return withDriver(ctx, at, func(ours *pebble.Driver) error {
			return withDriver(ctx, c.view, func(theirs *pebble.Driver) (err error) {
				out.Lost, err = differences(ctx, ours.Driver, theirs.Driver)
				return err
			})
		})
	})
}

// keysOf returns the keys of callers in a data folder.
func keysOf(ctx context.Context, at *cli.App) (keys []*callers.Key, err error) {
	err = at.WithEngine(ctx, false, func(e *ostiary.Engine) error {
		keys, err = callers.New(e, callers.Options{}).List(ctx)
		return err
	})
	return keys, err
}

// namesMax bounds how many keys and stores are named in a text.
const namesMax = 100

func namesOf(names []string) string {
	if more := len(names) - namesMax; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namesMax], ", "), more)
	}
	return strings.Join(names, ", ")
}

func (r *restored) print(w io.Writer, o restoreOptions) {
	did := "restored"
	if o.dry {
		did = "would restore"
	}
	cli.Printf(w, "%s %s as of %s into %s: %s, %s, %s; hash of all rows %s\n", did, r.From, cli.Stamp(r.Made), r.Data, cli.Plural(r.Stores, "store"), cli.PluralOf(r.Entries, "entry", "entries"), cli.Plural(r.Tuples, "tuple"), r.Rows)
	for i := range r.Lost {
		if i == namesMax {
			cli.Printf(w, "%d more stores differ: see --json\n", len(r.Lost)-namesMax)
			break
		}
		cli.Printf(w, "%s\n", r.Lost[i].text(r.Old))
	}
	if r.Old != "" && len(r.Lost) == 0 {
		cli.Printf(w, "%s has nothing besides\n", r.Old)
	}
	switch {
	case len(r.Revived) > 0:
		cli.Printf(w, "these keys count again, which were revoked or rotated since: %s. Revoke them with \"ostiary key revoke NAME\" before you serve the folder\n", namesOf(r.Revived))
	case r.Old == "" && len(r.Keys) > 0:
		cli.Printf(w, "keys of callers are those of the backup, and those revoked since count again; without --old it is not known which. All of them: %s\n", namesOf(r.Keys))
	}
	if r.TokensEnded {
		cli.Printf(w, "all tokens of the Identity API that were issued before have ended; grants and passwords are those of the backup\n")
	}
	if r.FernetKeys != "" {
		cli.Printf(w, "made new Fernet keys for the tokens of the Identity API in %s, because there were none\n", r.FernetKeys)
	}
	if r.SecretKey != "" {
		cli.Printf(w, "the secrets need the key with fingerprint %s: copy it to %s.key, or name it with --secret-key-file\n", r.SecretKey, r.Data)
	}
	if r.Closed && len(r.Keys) == 0 {
		cli.Printf(w, "the source required authentication: serve the folder with the same keys (--auth-keys-file or %s), or make one with \"ostiary key create\"\n", cli.EnvKeys)
	}
}
