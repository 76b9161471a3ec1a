package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/identity"
	"github.com/ostiary/ostiary/identity/token"
)

// keystoneCommand returns the commands of the identity service.
func (a *app) keystoneCommand() *cobra.Command {
	cmd := group("keystone", "OpenStack Identity: set up or import a deployment, rotate keys", a.keystoneBootstrapCommand(), a.keystoneImportCommand(), a.keystoneRotateCommand())
	a.addKeystoneKeys(cmd.PersistentFlags())
	return cmd
}

func (a *app) addKeystoneKeys(s *pflag.FlagSet) {
	s.StringVar(&a.keystoneKeys, "keystone-keys", "", "folder of the Fernet keys of Keystone's tokens; default: the data folder's name with .fernet at its end")
	s.StringVar(&a.keystoneReceiptKeys, "keystone-receipt-keys", "", "folder of the Fernet keys of Keystone's receipts; default: the data folder's name with .receipts at its end")
}

// keystoneKeysFolder returns the folder of Fernet keys, which is next to the data
// folder.
func (a *app) keystoneKeysFolder() token.Repository {
	folder := a.keystoneKeys
	if folder == "" {
		folder = a.data + ".fernet"
	}
	return token.Repository{Folder: folder}
}

// keystoneReceiptsFolder returns the folder of the keys of receipts.
func (a *app) keystoneReceiptsFolder() token.Repository {
	return token.Repository{Folder: cmp.Or(a.keystoneReceiptKeys, a.data+".receipts")}
}

// receiptKeys returns the function that loads the keys of receipts. It is nil if
// there is no folder: deployments of earlier builds have none, and receipts, which
// live five minutes, then end with the server.
func (a *app) receiptKeys() func() ([]token.Key, error) {
	r := a.keystoneReceiptsFolder()
	if _, err := os.Stat(r.Folder); errors.Is(err, fs.ErrNotExist) && a.keystoneReceiptKeys == "" {
		return nil
	}
	return (&fernetKeys{repository: r}).load
}

// bootstrapEnvironment is the beginning of the names of the variables that
// keystone-manage reads.
const bootstrapEnvironment = "OS_BOOTSTRAP_"

func (a *app) keystoneBootstrapCommand() *cobra.Command {
	var o identity.BootstrapOptions
	var immutable bool
	cmd := &cobra.Command{Use: "bootstrap", Short: "Make the default domain, the roles, the administrator and the endpoints", Args: cobra.NoArgs,
		Long: "Make what a new deployment needs: the default domain, the roles admin, manager, member, reader and service, the administrator with a project, and the identity service with its endpoints.\n" +
			"It may run again: it adds what is missing and sets the password. Flags and variables (OS_BOOTSTRAP_PASSWORD) are those of keystone-manage.\n" +
			"It makes three things next to the data folder if they do not exist: the key that encrypts passwords and other secrets (--secret-key-file), the folder of the Fernet keys of tokens (--keystone-keys), and that of receipts (--keystone-receipt-keys). Keep a copy of each: without the first, no login works.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Mutable = !immutable
			for name, at := range map[string]string{"admin": o.AdminURL, "internal": o.InternalURL, "public": o.PublicURL} {
				if u, err := url.Parse(at); at != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
					return fmt.Errorf("%w: invalid --bootstrap-%s-url %q: expected http://HOST:PORT or https://HOST:PORT, with or without a path", errUsage, name, at)
				}
			}
			if o.Password == "" {
				return fmt.Errorf("%w: no password: set --bootstrap-password or OS_BOOTSTRAP_PASSWORD", errUsage)
			}
			return a.keystoneBootstrap(cmd.Context(), o)
		}}
	s := cmd.Flags()
	text := func(p *string, name, fallback, help string) {
		if v := os.Getenv(bootstrapEnvironment + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); v != "" {
			fallback = v
		}
		s.StringVar(p, "bootstrap-"+name, fallback, help)
		if name == "password" {
			s.Lookup("bootstrap-password").DefValue = "" // the help does not show it
		}
	}
	text(&o.Username, "username", "admin", "name of the administrator")
	text(&o.Password, "password", "", "password of the administrator; better in OS_BOOTSTRAP_PASSWORD, because other users can see command lines")
	text(&o.Project, "project-name", "admin", "name of the administrator's project")
	text(&o.Role, "role-name", "admin", "name of the administrator's role")
	text(&o.Service, "service-name", "keystone", "name of the identity service")
	text(&o.Region, "region-id", "", "region of the endpoints")
	text(&o.AdminURL, "admin-url", "", "URL of the endpoint for administrators")
	text(&o.InternalURL, "internal-url", "", "URL of the endpoint inside the deployment")
	text(&o.PublicURL, "public-url", "", "URL of the endpoint for users")
	s.BoolVar(&immutable, "immutable-roles", true, "protect the roles from changes")
	return cmd
}

func (a *app) keystoneBootstrap(ctx context.Context, o identity.BootstrapOptions) error {
	if a.server != "" {
		return unsupported("keystone bootstrap")
	}
	if err := a.ensureSecretKey(ctx); err != nil {
		return err
	}
	if a.data != inMemory {
		if err := errors.Join(a.keystoneKeysFolder().Setup(), a.keystoneReceiptsFolder().Setup()); err != nil {
			return err
		}
	}
	return a.withEngine(ctx, true, func(e *ostiary.Engine) error {
		store, err := bootstrapIdentity(ctx, e, o, identity.Options{})
		if err != nil {
			return err
		}
		return a.print(map[string]string{"store": store.ID().String(), "user": o.Username, "project": o.Project}, func(w io.Writer) {
			fmt.Fprintf(w, "user %s with role %s on project %s and on the system, in store %s\n", o.Username, o.Role, o.Project, store.ID())
		})
	})
}

// bootstrapIdentity bootstraps the deployment of an engine, and creates its store
// if there is none.
func bootstrapIdentity(ctx context.Context, e *ostiary.Engine, o identity.BootstrapOptions, settings identity.Options) (*ostiary.Store, error) {
	store, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore)
	if errors.Is(err, ostiary.ErrNoStore) {
		store, err = createKeystoneStore(ctx, e)
	} else if err == nil {
		err = checkKeystoneImport(ctx, store)
	}
	if err != nil {
		return nil, err
	}
	s, err := identity.Open(ctx, store, settings)
	if err != nil {
		return nil, err
	}
	return store, s.Bootstrap(ctx, o)
}

// createKeystoneStore creates the store of the deployment of an engine.
func createKeystoneStore(ctx context.Context, e *ostiary.Engine) (*ostiary.Store, error) {
	return e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "keystone", Aliases: map[string]string{keystone.Name: keystone.DefaultStore}})
}

func (a *app) keystoneRotateCommand() *cobra.Command {
	keys, receipts := 0, false
	cmd := &cobra.Command{Use: "rotate", Short: "Make the staged Fernet key the primary one, and stage a new key", Args: cobra.NoArgs,
		Long: "Make the staged Fernet key the primary one, stage a new key, and remove the oldest keys. Running servers read the folder again within a second.\n" +
			"Rotate at most as often as a token's life divided by the number of keys minus two, so that no key is removed while its tokens are valid.",
		RunE: func(*cobra.Command, []string) error {
			if a.server != "" {
				return unsupported("keystone rotate")
			}
			if keys < 2 {
				return fmt.Errorf("%w: invalid --max-active-keys %d: expected at least 2, the staged key and the primary one", errUsage, keys)
			}
			r := a.keystoneKeysFolder()
			if receipts {
				r = a.keystoneReceiptsFolder()
			}
			r.ActiveMax = keys
			primary, removed, err := r.Rotate()
			if err != nil {
				return fmt.Errorf("cannot rotate the Fernet keys; \"ostiary keystone bootstrap\" makes the first ones: %w", err)
			}
			return a.print(map[string]any{"folder": r.Folder, "primary": primary, "removed": append([]int{}, removed...)}, func(w io.Writer) {
				fmt.Fprintf(w, "rotated the keys in %s: key %d, which was staged, is now the primary one\n", r.Folder, primary)
				for _, n := range removed {
					fmt.Fprintf(w, "removed key %d: its tokens are no longer valid\n", n)
				}
			})
		}}
	cmd.Flags().IntVar(&keys, "max-active-keys", 3, "number of keys to keep, the staged one included")
	cmd.Flags().BoolVar(&receipts, "receipts", false, "rotate the keys of receipts instead of those of tokens")
	return cmd
}

// warnKeystoneKeys logs a warning if there is a deployment of the Identity API
// whose keys are missing, so that every login fails.
func (a *app) warnKeystoneKeys(ctx context.Context, e *ostiary.Engine, log *slog.Logger) {
	if _, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore); err != nil || a.data == inMemory {
		return
	}
	if key, err := a.readSecretKey(); key == nil || err != nil {
		log.Warn("logins to the Identity API will fail: the key of passwords is missing", "file", a.secretKeyFile())
	}
	if _, err := a.keystoneKeysFolder().Load(); err != nil {
		log.Warn("logins to the Identity API will fail: the Fernet keys cannot be read", "error", err)
	}
	if a.receiptKeys() == nil {
		log.Warn("receipts of the Identity API end with this process: their keys are missing", "folder", a.keystoneReceiptsFolder().Folder)
	}
}

// checkKeystoneModes fails if other users can read or change a Fernet key.
func (a *app) checkKeystoneModes() error {
	for _, r := range []token.Repository{a.keystoneKeysFolder(), a.keystoneReceiptsFolder()} {
		entries, err := os.ReadDir(r.Folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking for the keys of Identity's tokens (next to the data folder, or --keystone-keys): %w", err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			if err := checkKeysMode(filepath.Join(r.Folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// fernetKeys reads the keys of a folder, at most once a second and only if the
// folder has changed.
type fernetKeys struct {
	repository token.Repository
	mu         sync.Mutex
	checked    time.Time // time of the last look at the folder
	changed    time.Time // the folder's time of modification then
	keys       []token.Key
}

// fernetPoll is how often the folder is looked at.
const fernetPoll = time.Second

func (f *fernetKeys) load() ([]token.Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.keys != nil && now.Sub(f.checked) < fernetPoll {
		return f.keys, nil
	}
	info, err := os.Stat(f.repository.Folder)
	if err == nil && (f.keys == nil || !info.ModTime().Equal(f.changed)) {
		var keys []token.Key
		if keys, err = f.repository.Load(); err == nil {
			f.keys, f.changed = keys, info.ModTime()
		}
	}
	if f.checked = now; err != nil && f.keys == nil {
		return nil, fmt.Errorf("cannot read the Fernet keys: %w", err)
	}
	return f.keys, nil
}
