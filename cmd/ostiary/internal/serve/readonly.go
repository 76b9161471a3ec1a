package serve

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/storage"
)

// readOnly is the forwarder of a server with --read-only: no node takes its writes.
type readOnly struct{}

var _ forward.Forwarder = readOnly{}

// Target implements [forward.Forwarder].
func (readOnly) Target(context.Context) (forward.Target, bool, error) {
	return nil, false, &door.Refusal{Reason: door.NoHolder, Detail: "the server was started with --read-only"}
}

// Begin implements [forward.Forwarder].
func (readOnly) Begin(context.Context) bool { return false }

// Next implements [forward.Forwarder].
func (readOnly) Next() (storage.RequestID, uint64) { return storage.RequestID{}, 0 }

// checkReadOnly fails if --read-only is set with a setting that needs writes.
func (f *serveFlags) checkReadOnly(data string) error {
	switch {
	case !f.disk.readOnly:
		return nil
	case f.nodes.on():
		return fmt.Errorf("%w: --read-only is for a server with a data folder of its own, expected no settings of nodes", cli.ErrUsage)
	case data == cli.InMemory:
		return fmt.Errorf("%w: --read-only needs a data folder that exists, expected --data FOLDER", cli.ErrUsage)
	}
	return nil
}
