package relations

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

// deletedMatching is the result of a deletion of n tuples by a filter.
func deletedMatching(n int) string {
	if n == 1 {
		return "deleted 1 tuple that matches the filter"
	}
	return fmt.Sprintf("deleted %d tuples that match the filter", n)
}

func (a *app) tupleDelete() *cobra.Command {
	var filter filterFlags
	var missing string
	var yes bool
	cmd := &cobra.Command{Use: "delete USER RELATION OBJECT | delete --yes --user … --relation … --object …", Short: "Delete a tuple, or all tuples that match a filter",
		RunE: func(cmd *cobra.Command, args []string) error {
			selected, err := filter.parse()
			if err != nil {
				return err
			}
			w := client.Write{}
			if missing == "ignore" {
				w.OnMissing = missing
			} else if missing != "error" {
				return fmt.Errorf("%w: invalid --on-missing %q: expected error or ignore", cli.ErrUsage, missing)
			}
			switch all := selected != (rel.Filter{}); {
			case len(args) == 3 && !all:
				t, err := parseTriple(args)
				if err != nil {
					return err
				}
				w.Remove = client.TuplesOf(t)
				return a.onStore(cmd.Context(), func(s *found) error {
					return s.hintNames(cmd.Context(), "", t, a.write(cmd.Context(), s, w, "deleted "+t.Key().String(), unchangedMissing))
				})
			case len(args) == 0 && all && !yes:
				return fmt.Errorf("%w: this deletes every tuple that matches the filter; confirm with --yes", cli.ErrUsage)
			case len(args) == 0 && all && cmd.Flags().Changed("on-missing"):
				return fmt.Errorf("%w: --on-missing is about one tuple: expected none with a filter", cli.ErrUsage)
			case len(args) == 0 && all:
				return a.onStore(cmd.Context(), func(s *found) error { return a.deleteMatching(cmd.Context(), s, selected) })
			}
			return fmt.Errorf("%w: expected USER RELATION OBJECT, or a filter (--user, --relation, --object)", cli.ErrUsage)
		}}
	filter.add(cmd)
	cmd.Flags().StringVar(&missing, "on-missing", "error", "what to do if the tuple does not exist: error or ignore")
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm the deletion by a filter")
	return cmd
}

// deleteMatching deletes the tuples that match a filter, in one entry of the log.
func (a *app) deleteMatching(ctx context.Context, s *found, f rel.Filter) error {
	filter := filterOf(f)
	n, err := s.count(ctx, filter)
	if err != nil {
		return err
	}
	if err := a.write(ctx, s, client.Write{RemoveMatching: []client.Matching{{Tuples: filter}}}, deletedMatching(n), unchangedMissing); err != nil {
		return err
	}
	if text := s.unknownNames(ctx, []string{f.SubjectType, f.ObjectType}, f.Relation); text != "" {
		a.Note("check the filter%s", text)
	}
	return nil
}
