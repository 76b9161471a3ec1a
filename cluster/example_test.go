package cluster_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cluster"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/rel"
)

// open starts a node with an engine: this is what a program does on each machine.
func open(ctx context.Context, folder, join string) (*cluster.Node, *ostiary.Engine, func(), error) {
	node, err := cluster.Open(ctx, cluster.Options{Folder: folder, Join: join})
	if err != nil {
		return nil, nil, nil, err
	}
	engine, err := node.Engine(ctx, ostiary.Options{})
	if err != nil {
		node.Close()
		return nil, nil, nil, err
	}
	return node, engine, func() { node.Close() }, nil
}

// Three nodes, here in one process. What one of them writes, the others show at once.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, _ := os.MkdirTemp("", "cluster-")
	defer os.RemoveAll(dir)
	first, writer, end, err := open(ctx, filepath.Join(dir, "1"), "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	engines := []*ostiary.Engine{writer}
	for _, folder := range []string{"2", "3"} {
		token, err := first.Token(ctx, time.Hour)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, engine, end, err := open(ctx, filepath.Join(dir, folder), token)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer end()
		engines = append(engines, engine)
	}
	model, _, _ := language.ParseDSL([]byte("model\n  schema 1.1\ntype user\ntype document\n  relations\n    define viewer: [user]\n"))
	if _, _, own, err := first.Writer(ctx); err != nil || !own {
		fmt.Println("the first node does not write", err)
		return
	}
	store, err := writer.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "acme"})
	if err == nil {
		_, _, err = store.WriteSchema(ctx, authz.SchemaSource{Model: model})
	}
	tuple, _ := rel.Parse("document:roadmap#viewer@user:anne")
	if err == nil {
		_, err = store.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{tuple}})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, engine := range engines {
		copied, err := engine.Store(ctx, store.ID())
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, err := copied.Check(ctx, authz.CheckRequest{Object: tuple.Object, Relation: tuple.Relation, Subject: tuple.Subject})
		fmt.Println("node", i+1, answer.Allowed(), err)
	}
	// Output:
	// node 1 true <nil>
	// node 2 true <nil>
	// node 3 true <nil>
}
