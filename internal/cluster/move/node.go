package move

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
)

// This file opens the log in the data folder of a node of a cluster without a database. The
// node must be the only one that votes: it then has everything that the cluster has decided,
// and once it notes that the log was moved, no other node can go on.

// OpenNode opens the log in the folder of a node that does not run, and returns the id of the
// node. name is the end in messages, FROM or TO, and text what names its place. stores is FROM
// if that is a folder, which becomes the node in place; nil if not. A missing folder becomes
// that of a new node. OpenNode fails with [quorum.ErrVoters] if other nodes vote.
func OpenNode(ctx context.Context, name, text string, at, stores Folder) (sharedlog.Log, storage.NodeID, error) {
	none := storage.NodeID{}
	id, err := nodeOf(ctx, at, stores)
	if err != nil {
		return nil, none, err
	}
	log, err := quorum.OpenAlone(filepath.Join(at.Path(), quorum.FolderName), id)
	if errors.Is(err, quorum.ErrVoters) {
		err = fmt.Errorf("%w. Name the folder of the node that is to be the last voter, after the other nodes were started again with --vote=false, one after the other, and all nodes were stopped. "+
			"If those are lost, see \"ostiary node recover\"", err)
	}
	if err != nil {
		return nil, none, fmt.Errorf("%s %s: %w", name, text, err)
	}
	return log, log.ID(), nil
}

// nodeOf returns the id that a new node in a folder must have: that of the copy that the
// folder has already, because the folder was on the log of FROM. It is zero if any will do.
// A missing folder becomes that of an empty copy.
func nodeOf(ctx context.Context, at, stores Folder) (id storage.NodeID, err error) {
	if _, err := os.Stat(filepath.Join(at.Path(), quorum.FolderName)); err == nil {
		return id, nil // the node has its id
	}
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
