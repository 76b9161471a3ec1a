package raftlog

import (
	"reflect"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// commands has a command of each operation, and how many bytes its entry may have in
// addition to those of its segment, part and secrets.
var commands = []struct {
	command
	bytesMax int
}{
	{command{Operation: opAppend, After: position(8), Record: sharedlog.Record{Position: position(9), Bytes: []byte("segment")}}, 160},
	{command{Operation: opAppend, After: position(8), Record: sharedlog.Record{Position: position(9)}, Parts: []uint64{7, 8},
		Secrets: []sharedlog.SecretChange{{SecretKey: sharedlog.SecretKey{Store: storage.StoreID{1}, Kind: "kind", Key: "key"}, Body: []byte("secret")}}}, 320},
	{command{Operation: opTrim, Below: 4}, 20},
	{command{Operation: opCluster, Cluster: [2]sharedlog.Cluster{{}, {ID: sharedlog.ClusterID{1}, Format: 1}}}, 420},
	{command{Operation: opLease, Lease: [2]sharedlog.Lease{{}, {Holder: storage.NodeID{1}, Epoch: 2}}}, 140},
	{command{Operation: opRegister, Node: sharedlog.NodeRecord{ID: storage.NodeID{2}, Start: 3, Address: "a:1", Seen: time.Unix(1, 0)}}, 220},
	{command{Operation: opReport, Node: sharedlog.NodeRecord{ID: storage.NodeID{2}, Start: 3, Stopped: true}}, 220},
	{command{Operation: opForget, Node: sharedlog.NodeRecord{ID: storage.NodeID{2}}}, 220},
	{command{Operation: opSnapshot, SnapshotAt: position(5), Server: "server"}, 80},
	{command{Operation: opNothing}, 8},
	{command{Operation: opPart, Part: []byte("part")}, 16},
	{command{Operation: opToken, Token: storage.Hash{1}, Until: time.Unix(2, 0), Now: time.Unix(1, 0)}, 70},
	{command{Operation: opAdmit, Token: storage.Hash{1}, Server: "server", Now: time.Unix(1, 0)}, 70},
	{command{Operation: opDismiss, Server: "server"}, 16},
	{command{Operation: opRestore, After: position(1), Record: sharedlog.Record{Position: position(2), Bytes: []byte{0x90}}}, 160},
}

func position(sequence uint64) sharedlog.Position {
	return sharedlog.Position{Sequence: sequence, Hash: storage.Hash{byte(sequence), 1}}
}

// TestCommandForms reads each command in the form in which it is written, and in that of
// programs that write every field. Those have the same reader, so they read both, too.
func TestCommandForms(t *testing.T) {
	seen := map[operation]bool{}
	for _, c := range commands {
		seen[c.Operation] = true
		now, err := c.encode()
		if err != nil {
			t.Fatal(err)
		}
		before, err := msgpack.Marshal(&c.command)
		if err != nil {
			t.Fatal(err)
		}
		for form, b := range map[string][]byte{"now": now, "before": before} {
			got, err := decodeCommand(b)
			if err != nil || !reflect.DeepEqual(got, &c.command) {
				t.Errorf("operation %d, form %s: %+v, error %v; want %+v", c.Operation, form, got, err, &c.command)
			}
		}
		t.Logf("operation %d: %d bytes; %d with every field", c.Operation, len(now), len(before))
		if len(now) > c.bytesMax {
			t.Errorf("operation %d has %d bytes, expected at most %d", c.Operation, len(now), c.bytesMax)
		}
	}
	for o := opAppend; o <= opRestore; o++ {
		if !seen[o] {
			t.Errorf("operation %d has no command in this test", o)
		}
	}
}

// TestCommandFields fails if a field of command is not written.
func TestCommandFields(t *testing.T) {
	have, want := reflect.TypeFor[written](), reflect.TypeFor[command]()
	if have.NumField() != want.NumField() {
		t.Fatalf("written has %d fields, command %d", have.NumField(), want.NumField())
	}
	for i := range want.NumField() {
		if h, w := have.Field(i), want.Field(i); h.Name != w.Name || h.Tag != w.Tag {
			t.Errorf("field %d of written is %s %s, that of command %s %s", i, h.Name, h.Tag, w.Name, w.Tag)
		}
	}
}
