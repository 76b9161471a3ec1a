package quorum

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// ErrVoters means that a folder is not that of the only voter of its cluster, so that
// other nodes may have more.
var ErrVoters = errors.New("node is not the only voter")

// Alone is the log in the folder of a node that does not run: everything that the cluster
// has decided, because the node is the only voter. It is a connection to the log, and Close
// ends it and frees the folder.
type Alone struct {
	*raftlog.Log
	node  *raftlog.Server
	state state
}

// OpenAlone opens the log of the folder of a node, without other nodes and without a port.
// If the folder is missing, or has no log yet, it makes the first node of a new cluster
// there, with an id; the zero id means a random one. [Open] goes on with the folder. It fails
// with [ErrVoters] if other nodes vote, or if only others do.
func OpenAlone(folder string, id storage.NodeID) (*Alone, error) {
	a, err := openAlone(folder, id)
	if err != nil {
		return nil, err
	}
	if err := a.check(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func openAlone(folder string, id storage.NodeID) (*Alone, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	s, err := readState(folder)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(folder, logName)
	switch _, err := os.Stat(log); {
	case errors.Is(err, fs.ErrNotExist) && s.Text == "":
		if id != (storage.NodeID{}) {
			s.ID = id
		}
		// The name of the log stays out of the state, so that Open makes the authority.
		if err := s.write(folder); err != nil {
			return nil, err
		}
	case errors.Is(err, fs.ErrNotExist) && (s.Begun || s.Cluster != ""):
		return nil, fmt.Errorf("%w: %s is gone, so this node has lost its part of the log", storage.ErrDamaged, log)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	node, err := raftlog.Open(raftlog.Options{Folder: log, Address: aloneAddress, ID: s.ID.String(), First: s.Cluster == "",
		Dial: func(context.Context, string) (*grpc.ClientConn, error) { return nil, errAlone }})
	if err != nil {
		return nil, err
	}
	return &Alone{Log: node.Log(), node: node, state: s}, nil
}

// aloneAddress is the address of a new node until it is started.
const aloneAddress = "unknown:1"

var errAlone = errors.New("the log of one node is open alone")

// check fails with ErrVoters unless the node is the only voter.
func (a *Alone) check() error {
	members, err := a.node.Members()
	if err != nil {
		return err
	}
	var others []string
	own := false
	for _, m := range members {
		switch {
		case m.Voter && m.ID == a.node.ID():
			own = true
		case m.Voter:
			others = append(others, m.Address)
		}
	}
	switch {
	case len(others) > 0 && own:
		return fmt.Errorf("%w: the nodes at %v vote too, and may have writes that this folder does not have", ErrVoters, others)
	case len(others) > 0:
		return fmt.Errorf("%w: it does not vote, and the nodes at %v do", ErrVoters, others)
	case !own:
		return fmt.Errorf("%w: it has not joined its cluster yet", ErrVoters)
	}
	return nil
}

// ID returns the id of the node, which its folder keeps.
func (a *Alone) ID() storage.NodeID { return a.state.ID }

// Connect returns another connection to the log.
func (a *Alone) Connect() sharedlog.Log { return a.node.Log() }

// Close implements [sharedlog.Log].
func (a *Alone) Close() error { return errors.Join(a.Log.Close(), a.node.Close()) }
