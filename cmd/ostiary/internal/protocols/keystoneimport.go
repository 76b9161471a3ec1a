package protocols

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/migrate"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
)

// keystoneImportKey is the key of the document of a store that holds its
// keystoneImportState.
const keystoneImportKey = "keystone.import"

// keystoneImportState is whether an import into a store is complete.
type keystoneImportState struct {
	Done bool `json:"done"`
}

func (a *app) keystoneImportCommand() *cobra.Command {
	var from, keys, credentialKeys string
	cmd := &cobra.Command{Use: "import --from URL", Short: "Copy a deployment from the database of OpenStack Keystone", Args: cobra.NoArgs,
		Long: "Copy a deployment from the database of OpenStack Keystone to the data folder: domains with their configurations, projects, users with their passwords,\n" +
			"groups, roles, assignments, the catalog with its filters, policies, limits, application credentials, trusts, EC2 and other credentials, OAuth 1,\n" +
			"federation, and revoked tokens. Ids and hashes stay the same, so clients log in as before. With --fernet-keys, tokens that Keystone has issued stay valid.\n\n" +
			"--from is the value \"connection\" of [database] in keystone.conf, for MariaDB, MySQL or PostgreSQL. The database is only read, in one\n" +
			"transaction. Stop Keystone before the import, or what it writes later is missing.\n\n" +
			"The command prints what it copies, and counts what has no place. Records that it does not copy, or not in whole, make the exit code 2; the file\n" +
			"with the name of the data folder and .import.txt lists all of them, without secrets.\n\n" +
			"The data folder must not have a deployment. An interrupted import starts again when the same command runs again; until then, no server\n" +
			"serves the folder.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.Server != "" {
				return cli.Unsupported("keystone import")
			}
			if from == "" || a.Data == cli.InMemory {
				return fmt.Errorf("%w: expected --from URL and a data folder (--data DIR)", cli.ErrUsage)
			}
			db, dialect, err := openKeystoneDatabase(from)
			if err != nil {
				return err
			}
			defer db.Close()
			var decrypt []settings.Key
			if credentialKeys != "" {
				if decrypt, err = (token.Repository{Folder: credentialKeys}).Load(); err != nil {
					return err
				}
			}
			if err := a.copyFernetKeys(keys); err != nil {
				return err
			}
			if err := a.KeystoneReceiptsFolder().Setup(); err != nil {
				return err
			}
			if err := a.ensureSecretKey(cmd.Context()); err != nil {
				return err
			}
			return a.WithEngine(cmd.Context(), true, func(e *ostiary.Engine) error {
				report, err := a.keystoneImport(cmd.Context(), e, migrate.Options{DB: db, Dialect: dialect, CredentialKeys: decrypt})
				if err != nil {
					return err
				}
				return a.showImport(report, a.importNotes())
			})
		}}
	cmd.Flags().StringVar(&from, "from", "", "URL of the database, for example mysql://keystone:PASSWORD@127.0.0.1/keystone; better in OSTIARY_FROM, because other users can see command lines")
	cmd.Flags().StringVar(&keys, "fernet-keys", "", "folder of Keystone's Fernet keys to copy; without it, users must log in again")
	cmd.Flags().StringVar(&credentialKeys, "credential-keys", "", "folder of the keys that encrypt credentials in the database; without it, EC2 keys and seeds of one-time passwords are not copied")
	return cmd
}

// openKeystoneDatabase opens the database at a URL. The URL may have the form of
// SQLAlchemy, which names a driver after a plus sign.
func openKeystoneDatabase(from string) (*sql.DB, migrate.Dialect, error) {
	u, err := url.Parse(from)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") == "" {
		return nil, "", fmt.Errorf("%w: invalid --from: expected mysql://USER:PASSWORD@HOST/DATABASE or postgresql://USER:PASSWORD@HOST/DATABASE", cli.ErrUsage) // the URL may contain a password
	}
	scheme, _, _ := strings.Cut(u.Scheme, "+")
	u.Scheme = scheme
	query := u.Query()
	query.Del("charset") // of SQLAlchemy's driver, which oslo.db asks for
	u.RawQuery = query.Encode()
	switch scheme {
	case "mysql", "mariadb":
		db, err := mysql.Database(u.String())
		if err != nil {
			return nil, "", fmt.Errorf("%w: invalid --from: %w", cli.ErrUsage, err)
		}
		return db, migrate.MySQL, nil
	case "postgres", "postgresql":
		db, err := postgres.Database(u.String())
		if err != nil {
			return nil, "", fmt.Errorf("%w: invalid --from: %w", cli.ErrUsage, err)
		}
		return db, migrate.Postgres, nil
	}
	return nil, "", fmt.Errorf("%w: invalid --from: unknown database %q: expected mysql or postgresql", cli.ErrUsage, scheme)
}

// copyFernetKeys copies the folder of Keystone's keys, or makes new keys if there
// is none.
func (a *app) copyFernetKeys(folder string) error {
	to := a.KeystoneKeysFolder()
	if folder == "" {
		return to.Setup()
	}
	if err := (token.Repository{Folder: folder}).Copy(to.Folder); err != nil {
		return fmt.Errorf("copy the Fernet keys: %w", err)
	}
	return nil
}

// importNotes is the file that has a line for each record that an import did not
// copy, or not in whole.
func (a *app) importNotes() string { return a.Data + ".import.txt" }

// keystoneImport copies a database to the deployment of an engine.
func (a *app) keystoneImport(ctx context.Context, e *ostiary.Engine, o migrate.Options) (*migrate.Report, error) {
	store, err := freshKeystoneStore(ctx, e)
	if err != nil {
		return nil, err
	}
	if o.To, err = identity.Open(ctx, store, settings.Deployment{}); err != nil {
		return nil, err
	}
	if empty, err := o.To.Empty(ctx); err != nil {
		return nil, err
	} else if !empty {
		return nil, fmt.Errorf("%w: import needs a data folder without a deployment; use another --data, or delete store %s", migrate.ErrNotEmpty, store.ID())
	}
	if err := WriteKeystoneImport(ctx, store, false); err != nil {
		return nil, err
	}
	line := a.Progress()
	defer line.End()
	o.Progress = func(_ string, done, total int) { line.Show("copying", done, total) }
	notes, err := os.OpenFile(a.importNotes(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer notes.Close()
	out := bufio.NewWriter(notes)
	o.Note = func(text string) { cli.Println(out, text) }
	report, err := migrate.Run(ctx, o)
	if e := out.Flush(); err == nil {
		err = e
	}
	if err != nil {
		return nil, &cli.StoppedError{Err: err, Done: "\nrun the same command again to start again"}
	}
	return report, WriteKeystoneImport(ctx, store, true)
}

// errInterruptedImport means that a deployment has a part of the records of
// another one only.
var errInterruptedImport = errors.New("the last import into this data folder was interrupted: run \"ostiary keystone import\" again")

// checkKeystoneImport fails with errInterruptedImport if the deployment of an
// engine is an import that has not ended.
func checkKeystoneImport(ctx context.Context, store *ostiary.Store) error {
	d, err := store.Document(ctx, authz.DocumentKey{Kind: native.DocumentsKind, Key: keystoneImportKey})
	if errors.Is(err, authz.ErrNoDocument) {
		return nil
	}
	if err != nil {
		return err
	}
	var state keystoneImportState
	if err := json.Unmarshal(d.Body, &state); err != nil {
		return err
	}
	if !state.Done {
		return errInterruptedImport
	}
	return nil
}

// freshKeystoneStore returns a new store for the deployment, or the existing one if
// it has another origin than an interrupted import.
func freshKeystoneStore(ctx context.Context, e *ostiary.Engine) (*ostiary.Store, error) {
	store, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore)
	if err == nil {
		if err = checkKeystoneImport(ctx, store); !errors.Is(err, errInterruptedImport) {
			return store, err
		}
		if err := e.DeleteStore(ctx, store.ID()); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, authz.ErrNoStore) {
		return nil, err
	}
	return CreateKeystoneStore(ctx, e)
}

// CheckKeystoneDeployment is like checkKeystoneImport. It succeeds if the engine
// has no deployment.
func CheckKeystoneDeployment(ctx context.Context, e *ostiary.Engine) error {
	store, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore)
	if errors.Is(err, authz.ErrNoStore) {
		return nil
	}
	if err != nil {
		return err
	}
	return checkKeystoneImport(ctx, store)
}

func WriteKeystoneImport(ctx context.Context, store *ostiary.Store, done bool) error {
	body, err := json.Marshal(keystoneImportState{Done: done})
	if err != nil {
		return err
	}
	_, err = store.Write(ctx, authz.WriteRequest{Documents: []authz.Document{{Kind: native.DocumentsKind, Key: keystoneImportKey, Body: body}}})
	return err
}

// showImport prints the report of an import. It fails if records were refused, or
// were copied without a part. notes is the file that has all of them.
func (a *app) showImport(r *migrate.Report, notes string) error {
	err := a.Print(r, func(w io.Writer) {
		for _, c := range r.Copied {
			if c.Copied > 0 {
				cli.Printf(w, "copied %s\n", &c)
			}
		}
		for _, t := range r.Absent {
			cli.Printf(w, "not copied: %s of table %s: %s\n", cli.Plural(t.Rows, "row"), t.Table, t.Why)
		}
	})
	if err != nil || r.Refused()+r.Incomplete() == 0 {
		return err
	}
	var reasons []string
	for _, c := range r.Copied {
		for _, reason := range c.Reasons {
			reasons = append(reasons, c.What+": "+reason)
		}
		if more := c.Refused + c.Incomplete - len(c.Reasons); more > 0 {
			reasons = append(reasons, fmt.Sprintf("%s: and %d more", c.What, more))
		}
	}
	return fmt.Errorf("%w: %d were not copied, %d were copied without a part; %s has all of them\n%s", errNotCopied, r.Refused(), r.Incomplete(), notes, strings.Join(reasons, "\n"))
}

// errNotCopied means that an import is complete except for records that the
// deployment refuses.
var errNotCopied = errors.New("the import is complete except for some records")
