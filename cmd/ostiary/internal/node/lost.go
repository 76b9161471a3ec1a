package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/move"
	"github.com/ostiary/ostiary/storage"
)

func (a *app) lostCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{Use: "lost", Short: "List the writes that a folder has and the shared log has lost", Args: cobra.NoArgs,
		Long: "List what the data folder of this node has and the shared log does not have: its database was restored from a backup, or another one has taken over that\n" +
			"did not have the last writes. For each store it prints the revisions with their changes; of secrets only the names. Nothing is changed, and other nodes\n" +
			"can run; the server of the folder must be stopped. To accept the loss, move the folder away and start the node: it takes a new copy. To give the log what the\n" +
			"folder has, see \"ostiary node heal\". With --json, one line for each store is followed by one for each entry. The exit code is 0 also if something is lost.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needLog(at); err != nil {
				return err
			}
			return a.lost(cmd.Context(), at)
		}}
	cli.AddLog(cmd.Flags(), &at)
	return cmd
}

// lost prints what the data folder has and the log of a URL does not have.
func (a *app) lost(ctx context.Context, at string) (err error) {
	line, from := a.Progress(), newEnd("--log", at)
	local, err := a.OpenCopy(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	m := move.Move{From: a.endOf(&from, nil), Progress: line.Show, Temporary: Temporary(a.App)}
	stores, entries := 0, 0
	err = m.Lost(ctx, local, func(s move.LostStore, of iter.Seq2[storage.Entry, error]) error {
		line.End()
		stores++
		out := lostStore{s.Info.ID.String(), s.Info.Name, s.Missing, uint64(s.Common), uint64(s.Head)}
		err := a.Print(out, func(w io.Writer) {
			what := fmt.Sprintf("revisions %d to %d", s.Common+1, s.Head)
			if s.Missing {
				what = fmt.Sprintf("all %d revisions: the log does not have the store, because it was created after what the log has, or was deleted since", s.Head)
			}
			cli.Printf(w, "store %s (%s) has lost %s\n", s.Info.Name, s.Info.ID, what)
			if s.From > s.Common+1 {
				cli.Printf(w, "  revisions below %d are no longer kept in the folder either\n", s.From)
			}
		})
		if err != nil {
			return err
		}
		for e, err := range of {
			if err == nil {
				entries++
				err = a.printLostEntry(s.Info.ID, &e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if line.End(); err != nil || a.JSON {
		return err
	}
	if stores == 0 {
		cli.Println(a.Out, "the log has everything that the folder has")
		return nil
	}
	cli.Printf(a.Out, "lost: %s of %s. To accept that, move %s away and start the node\n", cli.PluralOf(entries, "write", "writes"), cli.Plural(stores, "store"), a.Data)
	return nil
}

// lostStore and lostEntry are what is printed with --json.
type lostStore struct {
	Store   string `json:"store"`
	Name    string `json:"name"`
	Missing bool   `json:"missing"` // the log does not have the store
	Common  uint64 `json:"common"`  // the last revision that both have
	Head    uint64 `json:"head"`    // the last one of the folder
}

type lostEntry struct {
	Store    string       `json:"store"`
	Revision uint64       `json:"revision"`
	Time     time.Time    `json:"time"`
	Caller   string       `json:"caller,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Changes  []lostChange `json:"changes"`
}

type lostChange struct {
	Do   string `json:"do"`   // add, set or remove
	What string `json:"what"` // tuple, attribute, document, secret or filter
	Text string `json:"text"`
}

func (a *app) printLostEntry(id storage.StoreID, e *storage.Entry) error {
	out := lostEntry{Store: id.String(), Revision: uint64(e.Revision), Time: e.Time.Time().UTC(), Caller: e.Origin.Caller, Reason: e.Origin.Reason, Changes: []lostChange{}}
	for i := range e.Changes {
		out.Changes = append(out.Changes, lostChangeOf(&e.Changes[i]))
	}
	return a.Print(out, func(w io.Writer) {
		cli.Printf(w, "  revision %d  %s", out.Revision, out.Time.Format(time.RFC3339Nano))
		if out.Caller != "" {
			cli.Printf(w, "  by %s", out.Caller)
		}
		if out.Reason != "" {
			cli.Printf(w, "  because %q", out.Reason)
		}
		cli.Println(w)
		for _, c := range out.Changes {
			cli.Printf(w, "    %s %s %s\n", c.Do, c.What, c.Text)
		}
	})
}

// lostChangeOf returns a change as it is printed. Secrets have no content.
func lostChangeOf(c *storage.Change) lostChange {
	document := func() string { return fmt.Sprintf("%s %q", c.Document.Kind, c.Document.Key) }
	switch c.Kind {
	case storage.TupleAdd:
		return lostChange{"add", "tuple", c.Tuple.String()}
	case storage.TupleRemove:
		return lostChange{"remove", "tuple", c.Tuple.Key().String()}
	case storage.AttributeSet:
		return lostChange{"set", "attribute", fmt.Sprintf("%s %s = %s", c.Attribute.Object, c.Attribute.Name, c.Attribute.Value)}
	case storage.AttributeRemove:
		return lostChange{"remove", "attribute", fmt.Sprintf("%s %s", c.Attribute.Object, c.Attribute.Name)}
	case storage.DocumentPut:
		return lostChange{"set", "document", document()}
	case storage.DocumentRemove:
		return lostChange{"remove", "document", document()}
	case storage.SecretPut:
		return lostChange{"set", "secret", document()}
	case storage.SecretRemove:
		return lostChange{"remove", "secret", document()}
	}
	return lostChange{"remove", "filter", fmt.Sprintf("%+v", c.Filter)}
}
