package serve

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage"
)

// TestCheckOthers starts a node that is alone: not while another node runs on the log,
// and once that has ended in good order.
func TestCheckOthers(t *testing.T) {
	t.Parallel()
	log := memorylog.New().Open()
	self := lease.Peer{ID: storage.NodeID{1}, Start: 1}
	own, other := sharedlog.NodeRecord{ID: self.ID, Start: 1}, sharedlog.NodeRecord{ID: storage.NodeID{2}, Start: 1}
	for _, n := range []sharedlog.NodeRecord{own, other} {
		if err := log.Register(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := new(member).checkOthers(t.Context(), log, self); err == nil || !strings.Contains(err.Error(), "node "+other.ID.String()+" reported to the log") {
		t.Errorf("with a node that runs: error %v", err)
	}
	if all, _, err := log.Nodes(t.Context()); err != nil || len(all) != 1 || all[0].ID != other.ID {
		t.Errorf("a node that was refused is registered: %v, error %v", all, err)
	}
	other.Stopped = true
	if err := log.Report(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := new(member).checkOthers(t.Context(), log, self); err != nil {
		t.Errorf("with a node that has stopped: %v", err)
	}
}

// TestAlone gives a server each setting for other nodes: with a log it is not alone then,
// and without one the setting is refused, because nothing would use it.
func TestAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set   func(*nodesFlags)
		alone bool
	}{
		{func(*nodesFlags) {}, true},
		{func(f *nodesFlags) { f.listen = "127.0.0.1:9999" }, false},
		{func(f *nodesFlags) { f.address = "here:1" }, false},
		{func(f *nodesFlags) { f.certificate = "x" }, false},
		{func(f *nodesFlags) { f.key = "x" }, false},
		{func(f *nodesFlags) { f.ca = "x" }, false},
	} {
		var f nodesFlags
		f.add(pflag.NewFlagSet("", pflag.ContinueOnError))
		c.set(&f)
		if alone := f.alone(); alone != c.alone {
			t.Errorf("%+v: alone %v", f, alone)
		}
		if err := f.unused(); c.alone != (err == nil) || err != nil && !strings.Contains(err.Error(), "need --log") {
			t.Errorf("%+v without a log: error %v", f, err)
		}
		f.log = "postgres://x/y"
		if err := f.unused(); err != nil {
			t.Errorf("%+v: error %v", f, err)
		}
	}
}
