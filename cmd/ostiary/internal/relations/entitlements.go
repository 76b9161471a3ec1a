package relations

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

func (a *app) entitlementsCommand() *cobra.Command {
	var flags queryFlags
	var relations []string
	var permissions bool
	cmd := &cobra.Command{Use: "entitlements USER OBJECT…", Short: "Show every relation that a subject has on some objects", Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			subject, err := rel.ParseSubject(args[0])
			if err != nil {
				return err
			}
			for _, object := range args[1:] {
				o, err := rel.ParseObject(object)
				if err == nil {
					err = requireNoWildcard(o)
				}
				if err != nil {
					return err
				}
			}
			return a.ask(cmd.Context(), &flags, rel.Tuple{Subject: subject}, func(s *found, q client.Query) error {
				text, err := s.ask(cmd.Context(), "/entitlements", entitlementsRequest{args[0], args[1:], permissions, relations, q})
				if err != nil {
					return err
				}
				if err := a.printEntitlements(text); err != nil {
					return err
				}
				a.noteObjects(cmd.Context(), s, &flags, args[1:])
				return nil
			})
		}}
	flags.add(cmd)
	cmd.Flags().StringSliceVar(&relations, "relation", nil, "show only this relation; may be repeated")
	cmd.Flags().BoolVar(&permissions, "permissions", false, "show only computed relations")
	return cmd
}

// noteObjects prints a note if a type of the objects has no relations, as that of a
// user: the arguments are then most often in the wrong order.
func (a *app) noteObjects(ctx context.Context, s *found, f *queryFlags, objects []string) {
	sc, err := s.Schema(ctx, f.schema)
	if err != nil || f.at != "" || sc.Model.Namespace != "" {
		return
	}
	for _, object := range objects {
		if typ, _, _ := strings.Cut(object, ":"); len(relationsOf(sc.Model, typ)) == 0 {
			a.Note("the type %q has no relations: the arguments are USER OBJECT…", typ)
			return
		}
	}
}

// entitlementsRequest is the body of a request for entitlements.
type entitlementsRequest struct {
	Subject     string   `json:"subject"`
	Objects     []string `json:"objects"`
	Permissions bool     `json:"permissions,omitempty"`
	Relations   []string `json:"relations,omitempty"`
	client.Query
}

// printEntitlements prints the response to a request for entitlements. It returns
// errPartial if some of its results are errors.
func (a *app) printEntitlements(text json.RawMessage) error {
	var out struct {
		Objects []struct {
			Object    string
			Relations []string
			Undecided []struct{ Relation string }
			Error     *struct{ Message string }
		}
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return err
	}
	failed := 0
	for _, o := range out.Objects {
		if o.Error != nil {
			failed++
		}
	}
	err := a.printNative(text, &out, func(w io.Writer) {
		for _, o := range out.Objects {
			line := strings.Join(o.Relations, " ")
			for _, u := range o.Undecided {
				line += " " + u.Relation + "?"
			}
			if o.Error != nil {
				line = "error: " + o.Error.Message
			}
			if line = strings.TrimSpace(line); line == "" {
				line = "nothing"
			}
			cli.Printf(w, "%s\t%s\n", o.Object, line)
		}
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%w: %d of %d", cli.ErrPartial, failed, len(out.Objects))
	}
	return err
}
