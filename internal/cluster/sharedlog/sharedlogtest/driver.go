package sharedlogtest

import (
	"context"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// RunDriver runs package storagetest on replicas of a shared log, whose copies are in
// memory. For each case it calls newLog, which returns what
// opens connections to a new, empty log.
func RunDriver(t *testing.T, newLog func(t *testing.T) func() (sharedlog.Log, error)) {
	storagetest.Run(t, func(t *testing.T) storagetest.Opener {
		copied := memory.NewStore()
		openLog := newLog(t)
		return func() (storage.Driver, error) {
			local, err := kv.New(copied, kv.Options{Copy: true})
			if err != nil {
				return nil, err
			}
			log, err := openLog()
			if err != nil {
				return nil, err
			}
			return clustertest.OpenReplica(context.Background(), log, local, replica.Options{})
		}
	})
}
