package protocols

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// keystoneCommand returns the commands of the identity service.
func (a *app) keystoneCommand() *cobra.Command {
	cmd := cli.Group("keystone", "OpenStack Identity: set up or import a deployment, rotate keys", a.keystoneBootstrapCommand(), a.keystoneImportCommand(), a.keystoneRotateCommand(), a.keystoneKeysCommand())
	a.AddKeystoneKeys(cmd.PersistentFlags())
	return cmd
}

// bootstrapEnvironment is the beginning of the names of the variables that
// keystone-manage reads.
const bootstrapEnvironment = "OS_BOOTSTRAP_"

func (a *app) keystoneBootstrapCommand() *cobra.Command {
	var o identity.BootstrapOptions
	var immutable, mutable bool
	cmd := &cobra.Command{Use: "bootstrap", Short: "Make the default domain, the roles, the administrator and the endpoints", Args: cobra.NoArgs,
		Long: "Make what a new deployment needs: the default domain, the roles admin, manager, member, reader and service, the administrator with a project, and the identity service with its endpoints.\n" +
			"It may run again, also while a server has the folder open: it adds what is missing and sets the password. Flags and variables (OS_BOOTSTRAP_PASSWORD) are those of keystone-manage.\n" +
			"It makes three things next to the data folder if they do not exist: the key that encrypts passwords and other secrets (--secret-key-file), the folder of the Fernet keys of tokens (--keystone-keys), and that of receipts (--keystone-receipt-keys). Keep a copy of each: without the first, no login works.\n" +
			"On a node of a cluster that has no folders of keys, the keys are made in the system store instead, for all nodes.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Mutable = mutable || !immutable
			for name, at := range map[string]string{"admin": o.AdminURL, "internal": o.InternalURL, "public": o.PublicURL} {
				if u, err := url.Parse(at); at != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
					return fmt.Errorf("%w: invalid --bootstrap-%s-url %q: expected http://HOST:PORT or https://HOST:PORT, with or without a path", cli.ErrUsage, name, at)
				}
			}
			if o.Password == "" {
				return fmt.Errorf("%w: no password: set --bootstrap-password or OS_BOOTSTRAP_PASSWORD", cli.ErrUsage)
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
	s.BoolVar(&mutable, "no-immutable-roles", false, "do not protect the roles that are made, also with --immutable-roles")
	return cmd
}

func (a *app) keystoneBootstrap(ctx context.Context, o identity.BootstrapOptions) error {
	if a.Server != "" {
		return fmt.Errorf("%w. If a server has the folder open, it executes the command: name the folder with --data", cli.Unsupported("keystone bootstrap"))
	}
	running := a.Data != cli.InMemory && cli.ServerOf(a.Data) != nil
	if !running {
		if err := a.ensureSecretKey(ctx); err != nil {
			return err
		}
	}
	// A server has folders of its own, or keys in the system store.
	if a.Data != cli.InMemory && !running {
		if err := a.SetupKeystoneKeys(); err != nil {
			return err
		}
	}
	var made Bootstrapped
	var err error
	if running {
		err = cli.Control(ctx, a.Data, BootstrapCommand, o, &made)
	} else {
		err = a.WithEngine(ctx, true, func(e *ostiary.Engine) error {
			store, err := BootstrapIdentity(ctx, e, o, settings.Deployment{})
			if err == nil {
				made.Store = store.ID().String()
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	return a.Print(map[string]string{"store": made.Store, "user": o.Username, "project": o.Project}, func(w io.Writer) {
		cli.Printf(w, "user %s with role %s on project %s and on the system, in store %s\n", o.Username, o.Role, o.Project, made.Store)
	})
}

// BootstrapCommand is the name of the command that bootstraps the deployment of a
// running server; see [cli.Control]. Its body is [identity.BootstrapOptions], and its
// answer [Bootstrapped].
const BootstrapCommand = "keystone/bootstrap"

// Bootstrapped is the answer of BootstrapCommand.
type Bootstrapped struct {
	Store string `json:"store"` // the id of the deployment's store
}

// BootstrapIdentity bootstraps the deployment of an engine, and creates its store
// if there is none.
func BootstrapIdentity(ctx context.Context, e *ostiary.Engine, o identity.BootstrapOptions, settings settings.Deployment) (*ostiary.Store, error) {
	store, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore)
	if errors.Is(err, authz.ErrNoStore) {
		store, err = CreateKeystoneStore(ctx, e)
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

// CreateKeystoneStore creates the store of the deployment of an engine.
func CreateKeystoneStore(ctx context.Context, e *ostiary.Engine) (*ostiary.Store, error) {
	return e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "keystone", Aliases: map[string]string{keystone.Name: keystone.DefaultStore}})
}

// errLostKey means that the key of the secrets of a deployment is missing, so that no
// new key may take its place.
var errLostKey = errors.New("the key of the secrets is missing")

// ensureSecretKey makes the file of the key if it does not exist. It fails with
// errLostKey if the folder has a deployment of Identity, whose secrets need the old
// key.
func (a *app) ensureSecretKey(ctx context.Context) error {
	if a.Data == cli.InMemory {
		return nil
	}
	file := a.SecretKeyFile()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if deployed, err := a.hasDeployment(ctx); err != nil {
		return err
	} else if deployed {
		return fmt.Errorf("%w: %s encrypts the passwords in %s: restore the file from its copy, or name it with --secret-key-file", errLostKey, file, a.Data)
	}
	return writeSecretKey(file)
}

// hasDeployment reports whether the data folder has a deployment of Identity, except a
// part of one that an interrupted import left. It needs no key.
func (a *app) hasDeployment(ctx context.Context) (found bool, err error) {
	if _, err := os.Stat(a.Data); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	without := *a
	without.SecretKey = "" // the file that it names does not exist
	err = without.WithEngine(ctx, true, func(e *ostiary.Engine) error {
		store, err := e.StoreByAlias(ctx, keystone.Name, keystone.DefaultStore)
		if err == nil {
			err = checkKeystoneImport(ctx, store)
		}
		if found = err == nil; errors.Is(err, authz.ErrNoStore) || errors.Is(err, errInterruptedImport) {
			return nil
		}
		return err
	})
	return found, err
}

// writeSecretKey writes a new key to a file that does not exist.
func writeSecretKey(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var key [32]byte
	rand.Read(key[:]) // never fails
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(key[:]) + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}
