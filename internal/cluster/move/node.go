package move

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// NewNode returns the id that a new node of a cluster without a database must have in a folder:
// that of the copy that the folder has already, because the folder was on the log of FROM. It
// is zero if any will do. stores is FROM if that is a folder, which becomes the node in place;
// nil if it is a log. A missing folder becomes that of an empty copy.
func NewNode(ctx context.Context, at, stores Folder) (id storage.NodeID, err error) {
	if entries, err := os.ReadDir(at.Path()); stores != nil && (err != nil || len(entries) == 0) {
		_, err := stores.OpenFolder(ctx) // FROM is missing
		return id, err
	}
	local, err := at.OpenCopy(ctx)
	switch {
	case errors.Is(err, kv.ErrNoCopy) && stores != nil:
		return id, nil // it is FROM
	case errors.Is(err, kv.ErrNoCopy):
		return id, fmt.Errorf("TO %s has stores already, expected a new folder", at.Path())
	case err != nil:
		return id, err
	}
	place, err := placeOf(local)
	return place.Node, errors.Join(err, local.Close())
}
