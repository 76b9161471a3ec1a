package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/identity/keyring"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
)

// loadKeys returns Fernet keys, the primary one first.
type loadKeys func(context.Context) ([]settings.Key, error)

// openKeyring lets the Identity door use the keys in the system store or, as long as it has
// none, those of the folders.
func (s *prepared) openKeyring() {
	var nodes keyring.Nodes
	if s.member != nil {
		nodes = s.member
	}
	s.keyring = keyring.New(s.engine, nodes)
	if s.Data == cli.InMemory {
		return
	}
	o := &s.flags.door.keystone
	o.Keys = s.storedOr(keyring.Tokens, o.Keys)
	if o.ReceiptKeys == nil {
		one := []settings.Key{settings.NewKey()}
		o.ReceiptKeys = func(context.Context) ([]settings.Key, error) { return one, nil }
	}
	o.ReceiptKeys = s.storedOr(keyring.Receipts, o.ReceiptKeys)
}

// storedOr returns the keys of a purpose in the system store, or those of a folder if it
// has none.
func (s *prepared) storedOr(p keyring.Purpose, folder loadKeys) loadKeys {
	return func(ctx context.Context) ([]settings.Key, error) {
		keys, err := s.keyring.Keys(ctx, p)
		if keys == nil && err == nil {
			return folder(ctx)
		}
		return keys, err
	}
}

// withoutContext adapts the keys of a folder.
func withoutContext(load func() ([]settings.Key, error)) loadKeys {
	if load == nil {
		return nil
	}
	return func(context.Context) ([]settings.Key, error) { return load() }
}

// setupKeys makes the keys of a new deployment: in the system store on a node of a cluster
// that has no folders with keys, so that all nodes have them, and else in folders.
func (s *prepared) setupKeys(ctx context.Context) error {
	if s.member == nil || hasKeys(s.KeystoneKeysFolder()) || hasKeys(s.KeystoneReceiptsFolder()) {
		if tokens, err := s.keyring.Keys(ctx, keyring.Tokens); tokens != nil || err != nil {
			return err
		}
		return s.SetupKeystoneKeys()
	}
	return s.keyring.Setup(ctx)
}

// hasKeys reports whether a folder has keys, or cannot be read.
func hasKeys(r token.Repository) bool {
	_, err := os.Stat(r.Folder)
	return !errors.Is(err, fs.ErrNotExist)
}

// warnKeyFolders logs what an operator should know about the keys of tokens and receipts.
func (s *prepared) warnKeyFolders(ctx context.Context) {
	for p, folder := range map[keyring.Purpose]token.Repository{keyring.Tokens: s.KeystoneKeysFolder(), keyring.Receipts: s.KeystoneReceiptsFolder()} {
		switch stored, err := s.keyring.Keys(ctx, p); {
		case err != nil:
			s.log.Warn(fmt.Sprintf("the keys of Identity's %s in the system store cannot be read", p), "error", err)
		case stored != nil && hasKeys(folder):
			s.log.Warn(fmt.Sprintf("the keys of Identity's %s are in the system store, so this folder of keys is not used: remove it, and the flag that names it", p), "folder", folder.Folder)
		case stored != nil:
		case p == keyring.Receipts:
			if s.ReceiptKeys() == nil {
				s.log.Warn("receipts of the Identity API end with this process: their keys are missing", "folder", folder.Folder)
			}
		default:
			if _, err := folder.Load(); err != nil {
				s.log.Warn("logins to the Identity API will fail: the Fernet keys cannot be read", "error", err)
			}
		}
	}
}
