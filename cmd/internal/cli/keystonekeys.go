package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
)

func (a *App) AddKeystoneKeys(s *pflag.FlagSet) {
	s.StringVar(&a.keystoneKeys, "keystone-keys", "", "folder of the Fernet keys of Keystone's tokens; default: the data folder's name with .fernet at its end")
	s.StringVar(&a.keystoneReceiptKeys, "keystone-receipt-keys", "", "folder of the Fernet keys of Keystone's receipts; default: the data folder's name with .receipts at its end")
}

// KeystoneKeysFolder returns the folder of Fernet keys, which is next to the data
// folder.
func (a *App) KeystoneKeysFolder() token.Repository {
	folder := a.keystoneKeys
	if folder == "" {
		folder = a.Data + ".fernet"
	}
	return token.Repository{Folder: folder}
}

// KeystoneReceiptsFolder returns the folder of the keys of receipts.
func (a *App) KeystoneReceiptsFolder() token.Repository {
	return token.Repository{Folder: cmp.Or(a.keystoneReceiptKeys, a.Data+".receipts")}
}

// ReceiptKeys returns the function that loads the keys of receipts. It is nil if
// there is no folder: deployments of earlier builds have none, and receipts, which
// live five minutes, then end with the server.
func (a *App) ReceiptKeys() func() ([]settings.Key, error) {
	r := a.KeystoneReceiptsFolder()
	if _, err := os.Stat(r.Folder); errors.Is(err, fs.ErrNotExist) && a.keystoneReceiptKeys == "" {
		return nil
	}
	return (&FernetKeys{Repository: r}).Load
}

// SetupKeystoneKeys makes the folders of keys that do not exist.
func (a *App) SetupKeystoneKeys() error {
	return errors.Join(a.KeystoneKeysFolder().Setup(), a.KeystoneReceiptsFolder().Setup())
}

// CheckKeystoneModes fails if other users can read or change a Fernet key.
func (a *App) CheckKeystoneModes() error {
	for _, r := range []token.Repository{a.KeystoneKeysFolder(), a.KeystoneReceiptsFolder()} {
		entries, err := os.ReadDir(r.Folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking for the keys of Identity's tokens (next to the data folder, or --keystone-keys): %w", err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			if err := CheckKeysMode(filepath.Join(r.Folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// FernetKeys reads the keys of a folder, at most once a second and only if the
// folder has changed.
type FernetKeys struct {
	Repository token.Repository
	mu         sync.Mutex
	checked    time.Time // time of the last look at the folder
	changed    time.Time // the folder's time of modification then
	keys       []settings.Key
}

func (f *FernetKeys) Load() ([]settings.Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.keys != nil && now.Sub(f.checked) < fernetPoll {
		return f.keys, nil
	}
	info, err := os.Stat(f.Repository.Folder)
	if err == nil && (f.keys == nil || !info.ModTime().Equal(f.changed)) {
		var keys []settings.Key
		if keys, err = f.Repository.Load(); err == nil {
			f.keys, f.changed = keys, info.ModTime()
		}
	}
	if f.checked = now; err != nil && f.keys == nil {
		return nil, fmt.Errorf("cannot read the Fernet keys: %w", err)
	}
	return f.keys, nil
}

// fernetPoll is how often the folder is looked at.
const fernetPoll = time.Second
