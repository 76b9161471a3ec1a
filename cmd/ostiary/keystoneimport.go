package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/identity"
	"github.com/ostiary/ostiary/identity/migrate"
	"github.com/ostiary/ostiary/identity/token"
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
		Long: "Copy a deployment from the database of OpenStack Keystone to the data folder: domains, projects, users, passwords, groups, roles,\n" +
			"assignments, regions, services, endpoints, limits, application credentials, trusts, EC2 and other credentials, and revoked tokens. Ids and hashes stay the same,\n" +
			"so clients log in as before. With --fernet-keys, tokens that Keystone has issued stay valid.\n\n" +
			"--from is the value \"connection\" of [database] in keystone.conf, for MariaDB, MySQL or PostgreSQL. The database is only read, in one\n" +
			"transaction. Stop Keystone before the import, or what it writes later is missing.\n\n" +
			"The data folder must not have a deployment. An interrupted import starts again when the same command runs again.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.server != "" {
				return unsupported("keystone import")
			}
			if from == "" || a.data == inMemory {
				return fmt.Errorf("%w: expected --from URL and a data folder (--data DIR)", errUsage)
			}
			db, dialect, err := openKeystoneDatabase(from)
			if err != nil {
				return err
			}
			defer db.Close()
			var decrypt []token.Key
			if credentialKeys != "" {
				if decrypt, err = (token.Repository{Folder: credentialKeys}).Load(); err != nil {
					return err
				}
			}
			if err := a.copyFernetKeys(keys); err != nil {
				return err
			}
			if err := a.ensureSecretKey(); err != nil {
				return err
			}
			return a.withEngine(cmd.Context(), true, func(e *ostiary.Engine) error {
				report, err := a.keystoneImport(cmd.Context(), e, migrate.Options{DB: db, Dialect: dialect, CredentialKeys: decrypt})
				if err != nil {
					return err
				}
				return a.showImport(report)
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
		return nil, "", fmt.Errorf("%w: invalid --from: expected mysql://USER:PASSWORD@HOST/DATABASE or postgresql://USER:PASSWORD@HOST/DATABASE", errUsage) // the URL may contain a password
	}
	scheme, _, _ := strings.Cut(u.Scheme, "+")
	switch scheme {
	case "mysql", "mariadb":
		c := mysql.NewConfig()
		c.Net, c.Addr, c.DBName, c.ParseTime = "tcp", u.Host, strings.Trim(u.Path, "/"), true
		c.User = u.User.Username()
		c.Passwd, _ = u.User.Password()
		if u.Port() == "" {
			c.Addr += ":3306"
		}
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, "", err
		}
		return sql.OpenDB(connector), migrate.MySQL, nil
	case "postgres", "postgresql":
		u.Scheme = scheme
		c, err := pgx.ParseConfig(u.String())
		if err != nil {
			return nil, "", fmt.Errorf("%w: invalid --from: expected postgresql://USER:PASSWORD@HOST/DATABASE", errUsage)
		}
		return stdlib.OpenDB(*c), migrate.Postgres, nil
	}
	return nil, "", fmt.Errorf("%w: invalid --from: unknown database %q: expected mysql or postgresql", errUsage, scheme)
}

// copyFernetKeys copies the folder of Keystone's keys, or makes new keys if there
// is none.
func (a *app) copyFernetKeys(folder string) error {
	to := a.keystoneKeysFolder()
	if folder == "" {
		return to.Setup()
	}
	if err := (token.Repository{Folder: folder}).Copy(to.Folder); err != nil {
		return fmt.Errorf("copy the Fernet keys: %w", err)
	}
	return nil
}

// keystoneImport copies a database to the deployment of an engine.
func (a *app) keystoneImport(ctx context.Context, e *ostiary.Engine, o migrate.Options) (*migrate.Report, error) {
	store, err := freshKeystoneStore(ctx, e)
	if err != nil {
		return nil, err
	}
	if o.To, err = identity.Open(ctx, store, identity.Options{}); err != nil {
		return nil, err
	}
	line := a.progress()
	defer line.end()
	o.Progress = func(table string, done, total int) { line.show("copying "+table, done, total) }
	report, err := migrate.Run(ctx, o)
	if errors.Is(err, migrate.ErrNotEmpty) {
		return nil, fmt.Errorf("%w: import needs a data folder without a deployment; use another --data, or delete store %s", err, store.ID())
	}
	if err != nil {
		return nil, fmt.Errorf("%w\nrun the same command again to start again", err)
	}
	return report, writeKeystoneImport(ctx, store, true)
}

// freshKeystoneStore returns a new store for the deployment, or the existing one if
// it has another origin than an interrupted import.
func freshKeystoneStore(ctx context.Context, e *ostiary.Engine) (*ostiary.Store, error) {
	store, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore)
	if err == nil {
		d, err := store.Document(ctx, ostiary.DocumentKey{Kind: native.DocumentsKind, Key: keystoneImportKey})
		var state keystoneImportState
		switch {
		case errors.Is(err, ostiary.ErrNoDocument):
			return store, nil
		case err != nil:
			return nil, err
		}
		if err := json.Unmarshal(d.Body, &state); err != nil || state.Done {
			return store, err
		}
		if err := e.DeleteStore(ctx, store.ID()); err != nil {
			return nil, err
		}
	} else if !errors.Is(err, ostiary.ErrNoStore) {
		return nil, err
	}
	store, err = createKeystoneStore(ctx, e)
	if err != nil {
		return nil, err
	}
	return store, writeKeystoneImport(ctx, store, false)
}

func writeKeystoneImport(ctx context.Context, store *ostiary.Store, done bool) error {
	body, err := json.Marshal(keystoneImportState{Done: done})
	if err != nil {
		return err
	}
	_, err = store.Write(ctx, ostiary.WriteRequest{Documents: []ostiary.Document{{Kind: native.DocumentsKind, Key: keystoneImportKey, Body: body}}})
	return err
}

// showImport prints the report of an import. It fails if records were refused.
func (a *app) showImport(r *migrate.Report) error {
	err := a.print(r, func(w io.Writer) {
		for _, c := range r.Copied {
			if c.Copied > 0 {
				fmt.Fprintf(w, "copied %s\n", plural(c.Copied, c.What))
			}
		}
		for _, t := range r.Absent {
			fmt.Fprintf(w, "not copied: table %s with %s: %s\n", t.Table, plural(t.Rows, "row"), t.Why)
		}
	})
	if err != nil || r.Refused() == 0 {
		return err
	}
	var reasons []string
	for _, c := range r.Copied {
		for _, reason := range c.Reasons {
			reasons = append(reasons, c.What+": "+reason)
		}
	}
	return fmt.Errorf("%w: %d\n%s", errNotCopied, r.Refused(), strings.Join(reasons, "\n"))
}

// errNotCopied means that an import is complete except for records that the
// deployment refuses.
var errNotCopied = errors.New("records were not copied")
