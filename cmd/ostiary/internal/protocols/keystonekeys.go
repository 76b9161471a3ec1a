package protocols

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/identity/keyring"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
)

// The names of the commands on the keys in the system store of a running server; see
// [cli.Control] and [KeyringCommands].
const (
	keysListCommand   = "keystone/keys/list"
	keysImportCommand = "keystone/keys/import"
	keysExportCommand = "keystone/keys/export"
	keysRotateCommand = "keystone/keys/rotate"
)

// Bodies and answers of the commands.
type (
	// listedKeys is the answer to keysListCommand: the keys of each purpose that has some.
	listedKeys map[keyring.Purpose]purposeKeys
	// purposeKeys are the keys of a purpose, and the nodes that lack the staged one.
	purposeKeys struct {
		Keys    []keyring.Key     `json:"keys"`
		Lacking []keyring.Lagging `json:"lacking"`
	}
	// plainKey is a key as its file has it.
	plainKey struct {
		Number int    `json:"number"`
		Key    string `json:"key"`
	}
	// plainKeys is the answer to keysExportCommand. It is secret.
	plainKeys map[keyring.Purpose][]plainKey
	// importedKeys is the body of keysImportCommand.
	importedKeys struct {
		Keys    plainKeys
		Replace bool
	}
	// rotatedKeys is the answer to keysRotateCommand, whose body is [keyring.Rotation].
	rotatedKeys struct {
		None bool // the system store has no such keys
		keyring.Rotated
	}
)

// KeyringCommand is a command on the keys in the system store.
type KeyringCommand struct {
	// Run executes the command. The body and the answer are JSON.
	Run func(ctx context.Context, k *keyring.Keyring, body []byte) (any, error)
	// Audited is true if the command changes keys or shows them.
	Audited bool
}

// KeyringCommands returns the commands on the keys in the system store, by their names.
func KeyringCommands() map[string]KeyringCommand {
	return map[string]KeyringCommand{
		keysListCommand:   {listKeys, false},
		keysImportCommand: {importKeys, true},
		keysExportCommand: {exportKeys, true},
		keysRotateCommand: {rotateKeys, true},
	}
}

func listKeys(ctx context.Context, k *keyring.Keyring, _ []byte) (any, error) {
	out := listedKeys{}
	for _, p := range keyring.Purposes() {
		keys, lacking, err := k.List(ctx, p)
		if errors.Is(err, keyring.ErrNone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[p] = purposeKeys{keys, append([]keyring.Lagging{}, lacking...)}
	}
	return out, nil
}

func importKeys(ctx context.Context, k *keyring.Keyring, body []byte) (any, error) {
	var in importedKeys
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	from := map[keyring.Purpose][]token.NumberedKey{}
	for p, all := range in.Keys {
		keys, err := numbered(all)
		if err != nil {
			return nil, err
		}
		from[p] = keys
	}
	err := k.Import(ctx, from, in.Replace)
	if errors.Is(err, keyring.ErrOther) {
		err = fmt.Errorf("%w; --replace replaces them, and ends their tokens", err)
	}
	if err != nil {
		return nil, err
	}
	return listKeys(ctx, k, nil)
}

// numbered reads plain keys.
func numbered(all []plainKey) (keys []token.NumberedKey, err error) {
	for _, plain := range all {
		key, err := settings.ParseKey(plain.Key)
		if err != nil {
			return nil, err
		}
		keys = append(keys, token.NumberedKey{Number: plain.Number, Key: key})
	}
	return keys, nil
}

func exportKeys(ctx context.Context, k *keyring.Keyring, _ []byte) (any, error) {
	out := plainKeys{}
	for _, p := range keyring.Purposes() {
		keys, err := k.Export(ctx, p)
		if err != nil && !errors.Is(err, keyring.ErrNone) {
			return nil, err
		}
		for _, key := range keys {
			out[p] = append(out[p], plainKey{key.Number, key.Key.Encode()})
		}
	}
	return out, nil
}

func rotateKeys(ctx context.Context, k *keyring.Keyring, body []byte) (any, error) {
	var in keyring.Rotation
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	out, err := k.Rotate(ctx, in)
	if errors.Is(err, keyring.ErrNone) {
		return rotatedKeys{None: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return rotatedKeys{Rotated: *out}, nil
}

// onKeyring executes one of KeyringCommands on the server that has the data folder open, or
// else on the folder.
func (a *app) onKeyring(ctx context.Context, command string, body, answer any) error {
	switch {
	case a.Server != "":
		return fmt.Errorf("%w. If a server has the folder open, it executes the command: name the folder with --data", cli.Unsupported("the command"))
	case a.Data == cli.InMemory:
		return fmt.Errorf("%w: expected a data folder (--data DIR)", cli.ErrUsage)
	case cli.ServerOf(a.Data) != nil:
		return cli.Control(ctx, a.Data, command, body, answer)
	}
	in, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return a.WithEngine(ctx, false, func(e *ostiary.Engine) error {
		out, err := KeyringCommands()[command].Run(ctx, keyring.New(e, nil), in)
		if err != nil {
			return err
		}
		text, err := json.Marshal(out)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, answer)
	})
}

func (a *app) keystoneKeysCommand() *cobra.Command {
	return cli.Group("keys", "Keys of tokens and receipts in the system store, which all nodes of a cluster share", a.keysListCommand(), a.keysImportCommand(), a.keysExportCommand())
}

func (a *app) keysListCommand() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the keys in the system store", Args: cobra.NoArgs,
		Long: "List the keys of tokens and of receipts in the system store: the primary key, which makes tokens, older ones, which still read them, and the staged one,\n" +
			"which the next rotation makes the primary one. Nodes of a cluster that have not reported the staged key yet are named.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out listedKeys
			if err := a.onKeyring(cmd.Context(), keysListCommand, struct{}{}, &out); err != nil {
				return err
			}
			return a.printKeys(out)
		}}
}

// printKeys prints the keys of all purposes.
func (a *app) printKeys(all listedKeys) error {
	return a.Print(all, func(w io.Writer) {
		if len(all) == 0 {
			cli.Printf(w, "the system store has no keys: those of folders are used\n")
			return
		}
		cli.Printf(w, "KEYS\tNUMBER\tSTATE\tMADE\n")
		for _, p := range keyring.Purposes() {
			for i, key := range all[p].Keys {
				state := "old"
				switch {
				case i == 0:
					state = "primary"
				case key.Number == 0:
					state = "staged"
				}
				cli.Printf(w, "%s\t%d\t%s\t%s\n", p, key.Number, state, key.Made.Format(time.RFC3339))
			}
		}
		for _, p := range keyring.Purposes() {
			for _, l := range all[p].Lacking {
				cli.Printf(w, "the staged key of %s is not known to have arrived: %s\n", p, l)
			}
		}
	})
}

func (a *app) keysImportCommand() *cobra.Command {
	var replace bool
	cmd := &cobra.Command{Use: "import", Short: "Copy folders of Fernet keys to the system store", Args: cobra.NoArgs,
		Long: "Copy folders of Fernet keys, also of an existing Keystone, to the system store, encrypted with the secret key. Tokens of the keys stay valid.\n" +
			"From then on, all nodes of a cluster use the keys in the system store and no longer those of folders, which can be removed.\n" +
			"It copies the folder of --keystone-keys and that of --keystone-receipt-keys; a default folder that does not exist is left out.\n" +
			"If the system store has other keys, --replace ends their tokens.",
		Example: "  ostiary keystone keys import --data /var/lib/ostiary --keystone-keys /etc/keystone/fernet-keys",
		RunE: func(cmd *cobra.Command, _ []string) error {
			in := importedKeys{Keys: plainKeys{}, Replace: replace}
			for p, r := range a.keyFolders() {
				keys, err := r.Numbered()
				if errors.Is(err, fs.ErrNotExist) && !cmd.Flags().Changed(folderFlags[p]) {
					continue
				}
				if err != nil {
					return fmt.Errorf("--%s: %w", folderFlags[p], err)
				}
				for _, key := range keys {
					in.Keys[p] = append(in.Keys[p], plainKey{key.Number, key.Key.Encode()})
				}
			}
			if len(in.Keys) == 0 {
				return fmt.Errorf("%w: no folder of keys: expected --keystone-keys or --keystone-receipt-keys", cli.ErrUsage)
			}
			var out listedKeys
			if err := a.onKeyring(cmd.Context(), keysImportCommand, in, &out); err != nil {
				return err
			}
			return a.printKeys(out)
		}}
	cmd.Flags().BoolVar(&replace, "replace", false, "replace other keys in the system store, whose tokens are no longer valid then")
	return cmd
}

// folderFlags are the names of the flags of the folders.
var folderFlags = map[keyring.Purpose]string{keyring.Tokens: "keystone-keys", keyring.Receipts: "keystone-receipt-keys"}

// keyFolders returns the folders of the flags.
func (a *app) keyFolders() map[keyring.Purpose]token.Repository {
	return map[keyring.Purpose]token.Repository{keyring.Tokens: a.KeystoneKeysFolder(), keyring.Receipts: a.KeystoneReceiptsFolder()}
}

func (a *app) keysExportCommand() *cobra.Command {
	return &cobra.Command{Use: "export FOLDER", Short: "Write the keys in the system store to folders in the form of Keystone", Args: cobra.ExactArgs(1),
		Long: "Write the keys in the system store to the folders tokens and receipts of a new folder, in the form of Keystone's fernet-keys. They are not encrypted.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var out plainKeys
			if err := a.onKeyring(cmd.Context(), keysExportCommand, struct{}{}, &out); err != nil {
				return err
			}
			if len(out) == 0 {
				return fmt.Errorf("%w; \"ostiary keystone keys import\" copies those of folders", keyring.ErrNone)
			}
			written := map[keyring.Purpose]string{}
			for p, all := range out {
				keys, err := numbered(all)
				if err != nil {
					return err
				}
				written[p] = filepath.Join(args[0], string(p))
				if err := (token.Repository{Folder: written[p]}).Save(keys); err != nil {
					return err
				}
			}
			return a.Print(written, func(w io.Writer) {
				for _, p := range slices.Sorted(maps.Keys(written)) {
					cli.Printf(w, "%s: %s in %s\n", p, cli.Plural(len(out[p]), "key"), written[p])
				}
			})
		}}
}

func (a *app) keystoneRotateCommand() *cobra.Command {
	r, receipts := keyring.Rotation{}, false
	cmd := &cobra.Command{Use: "rotate", Short: "Make the staged Fernet key the primary one, and stage a new key", Args: cobra.NoArgs,
		Long: "Make the staged Fernet key the primary one, stage a new key, and remove the oldest keys. If the keys are in the system store, the server that has\n" +
			"the folder of --data open rotates them when every registered node has applied the staged key; an error names the nodes that lack it. A node that does\n" +
			"not come back holds a rotation up for 24 hours, unless \"ostiary node remove\" removes it. Otherwise the folder of keys is changed, which running servers\n" +
			"read again within a second; --keystone-keys or --keystone-receipt-keys names that folder in any case.\n" +
			"Rotate at most as often as a token's life divided by the number of keys minus two, so that no key is removed while its tokens are valid.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.Server != "" {
				return cli.Unsupported("keystone rotate")
			}
			if r.ActiveMax < 2 || r.ActiveMax > keyring.KeysMax {
				return fmt.Errorf("%w: invalid --max-active-keys %d: expected at least 2, the staged key and the primary one, and at most %d", cli.ErrUsage, r.ActiveMax, keyring.KeysMax)
			}
			if r.Wait < 0 || r.Wait > rotationWaitMax {
				return fmt.Errorf("%w: invalid --wait %s: expected at most %s", cli.ErrUsage, r.Wait, rotationWaitMax)
			}
			r.Purpose = keyring.Tokens
			if receipts {
				r.Purpose = keyring.Receipts
			}
			if done, err := a.rotateStored(cmd, r); done || err != nil {
				return err
			}
			return a.rotateFolder(r)
		}}
	cmd.Flags().IntVar(&r.ActiveMax, "max-active-keys", 3, "number of keys to keep, the staged one included")
	cmd.Flags().BoolVar(&receipts, "receipts", false, "rotate the keys of receipts instead of those of tokens")
	cmd.Flags().DurationVar(&r.Wait, "wait", rotationWait, "how long to wait for running nodes that have not reported the staged key yet")
	cmd.Flags().BoolVar(&r.Force, "force", false, "rotate although nodes lack the staged key: they refuse new tokens until they have caught up")
	return cmd
}

// rotationWait is the default and rotationWaitMax the upper bound of --wait. Nodes report
// every 5 seconds.
const (
	rotationWait    = 20 * time.Second
	rotationWaitMax = 50 * time.Second
)

// rotateStored rotates the keys in the system store. done is false if it has none, or if a
// folder is named.
func (a *app) rotateStored(cmd *cobra.Command, r keyring.Rotation) (done bool, err error) {
	if _, err := os.Stat(a.Data); err != nil || cmd.Flags().Changed(folderFlags[r.Purpose]) {
		return false, nil
	}
	var out rotatedKeys
	if err := a.onKeyring(cmd.Context(), keysRotateCommand, r, &out); err != nil || out.None {
		return false, err
	}
	return true, a.Print(out.Rotated, func(w io.Writer) {
		cli.Printf(w, "rotated the keys of %s in the system store: key %d, which was staged, is now the primary one\n", r.Purpose, out.Primary)
		printRemoved(w, out.Removed)
		for _, l := range out.Lacking {
			cli.Printf(w, "refuses new tokens until it has caught up: %s\n", l)
		}
	})
}

// rotateFolder rotates the keys of a folder.
func (a *app) rotateFolder(r keyring.Rotation) error {
	folder := a.keyFolders()[r.Purpose]
	folder.ActiveMax = r.ActiveMax
	primary, removed, err := folder.Rotate()
	if err != nil {
		return fmt.Errorf("cannot rotate the Fernet keys; \"ostiary keystone bootstrap\" makes the first ones: %w", err)
	}
	return a.Print(map[string]any{"folder": folder.Folder, "primary": primary, "removed": append([]int{}, removed...)}, func(w io.Writer) {
		cli.Printf(w, "rotated the keys in %s: key %d, which was staged, is now the primary one\n", folder.Folder, primary)
		printRemoved(w, removed)
	})
}

func printRemoved(w io.Writer, removed []int) {
	for _, n := range removed {
		cli.Printf(w, "removed key %d: its tokens are no longer valid\n", n)
	}
}
