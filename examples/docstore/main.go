// Command docstore is an example that embeds package acp: a small document database
// on Pebble with access control for each document. Documents and their access
// change together in one transaction. [Store] is the database; the command runs a
// short scene on it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/ostiary/ostiary/acp"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docstore FOLDER")
		os.Exit(2)
	}
	if err := runScene(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "docstore:", err)
		os.Exit(1)
	}
}

// runScene creates a document as anne and shares it with bob. It prints what bob
// can read before and after.
func runScene(ctx context.Context, dir string) error {
	s, err := OpenStore(ctx, dir)
	if err != nil {
		return err
	}
	defer s.Close()
	anneKey, err := acp.GenerateKey(acp.KeyEd25519)
	if err != nil {
		return err
	}
	bobKey, err := acp.GenerateKey(acp.KeySecp256k1)
	if err != nil {
		return err
	}
	anne, bob := anneKey.Public().DID(), bobKey.Public().DID()
	id, err := s.Create(ctx, anne, Document{Title: "plans", Text: "take over the bakery"})
	if err != nil {
		return err
	}
	_, err = s.Read(ctx, bob, id)
	fmt.Println("bob, before:", err)
	if err := s.Share(ctx, anne, id, "reader", bob); err != nil {
		return err
	}
	d, err := s.Read(ctx, bob, id)
	fmt.Println("bob, after:", d.Title, err)
	return err
}
