package relations

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/backups"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/backup"
	"github.com/ostiary/ostiary/storage"
)

// backupSource is the content of a backup, on which the doors of this program answer. It is a
// [pinnedSource].
type backupSource struct {
	ostiarySource
	name string
}

func (s *backupSource) url() string { return s.name }

func sourceOn(c *client.Client, name string) *backupSource {
	return &backupSource{ostiarySource{openFGASource{server{Client: c}, &patientTransport{}}}, name}
}

// isBackup reports whether the source of an import is a backup, not a server.
func isBackup(from string) bool {
	info, err := os.Stat(from)
	return from == "-" || err == nil && info.IsDir()
}

// importBackup copies stores of a backup.
func (a *app) importBackup(ctx context.Context, names []string, o importOptions) error {
	return backups.Open(ctx, a.App, o.from, func(b *backup.Backup, view *cli.App) error {
		view.Server = ""
		name := o.from
		if path, err := filepath.Abs(o.from); err == nil && o.from != "-" {
			name = path
		}
		name = fmt.Sprintf("the backup %s of %s", name, cli.Stamp(b.Made))
		if o.revision == 0 {
			return a.importView(ctx, view, name, b.Closed, names, o)
		}
		var stores []client.StoreInfo
		err := view.WithClient(ctx, false, nil, func(c *client.Client) (err error) {
			stores, err = choose(ctx, sourceOn(c, name), names)
			return err
		})
		if err != nil {
			return err
		}
		id, err := storage.ParseStoreID(stores[0].ID)
		if err != nil {
			return err
		}
		return backups.AtRevision(ctx, view, id, storage.Revision(o.revision), func(at *cli.App) error {
			return a.importView(ctx, at, fmt.Sprintf("%s at revision %d", name, o.revision), b.Closed, names, o)
		})
	})
}

// importView copies stores of a folder with the content of a backup, whose source required
// authentication if it is closed.
func (a *app) importView(ctx context.Context, view *cli.App, name string, closed bool, names []string, o importOptions) error {
	return view.WithClient(ctx, false, nil, func(c *client.Client) error {
		source := sourceOn(c, name)
		stores, err := choose(ctx, source, names)
		if err != nil {
			return err
		}
		return a.copyStores(ctx, source, stores, closed, len(names) == 0, o)
	})
}
