// Command docstore is a small document database on Pebble with access control
// for each document: an example of embedding package acp. Data and access change
// in one transaction or not at all.
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
	if err := play(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "docstore:", err)
		os.Exit(1)
	}
}

// play lets anne write a document and share it with bob.
func play(ctx context.Context, dir string) error {
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
