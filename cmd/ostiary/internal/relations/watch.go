package relations

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
)

func (a *app) watchCommand() *cobra.Command {
	var flags permissionFlags
	var from, context string
	cmd := &cobra.Command{Use: "watch TYPE[#RELATION] RELATION TYPE", Short: "Show which subjects gain or lose a relation, as it happens", Args: cobra.ExactArgs(3),
		Long: "Show which subjects gain (+) or lose (-) a relation, as it happens, until the command is interrupted.\n" +
			"Name the objects or the subjects to watch. Only one process can have a folder open, so use --server to see the writes of others;\n" +
			"on a folder, --from shows past changes. With --json each line is one update.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireTypeNames(args); err != nil {
				return err
			}
			if len(flags.objects)+len(flags.subjects) == 0 {
				return fmt.Errorf("%w: expected what to watch: --object or --subject", cli.ErrUsage)
			}
			values, err := parseContext(context)
			if err != nil {
				return err
			}
			if _, err := authz.Token(from).Revision(); from != "" && err != nil {
				return fmt.Errorf("%w: invalid --from %q: expected a token, for example one that \"ostiary changes --json\" prints", cli.ErrUsage, from)
			}
			if a.Server == "" {
				a.Note("no other process can write to the folder while this command has it open: use --server to see changes as they happen")
			}
			typ, relation := splitType(args[0])
			query := url.Values{"subject_type": {typ}, "relation": {args[1]}, "object_type": {args[2]}, "object": ids(args[2], "", flags.objects), "subject": ids(typ, relation, flags.subjects)}
			if relation != "" {
				query.Set("subject_relation", relation)
			}
			if values != nil {
				text, err := json.Marshal(values)
				if err != nil {
					return err
				}
				query.Set("context", string(text))
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				if err := flags.requireOwnTypes(cmd.Context(), s, args[2], args[0]); err != nil {
					return err
				}
				own, err := s.native()
				if err != nil {
					return err
				}
				if a.Server != "" && from == "" {
					now, err := own.Get(cmd.Context())
					if err != nil {
						return err
					}
					from = now.Token
				}
				if from != "" {
					query.Set("after", from)
				}
				err = a.eachEvent(cmd.Context(), own.Watch(cmd.Context(), "/watch-permission", query), from, func(data json.RawMessage) error {
					var update struct{ Changes []permissionChange }
					return a.printNative(data, &update, func(w io.Writer) {
						for i := range update.Changes {
							update.Changes[i].print(w, args[1], a.Colored())
						}
					})
				})
				return s.hintOrder(cmd.Context(), typ, args[1], args[2], err)
			})
		}}
	flags.add(cmd)
	cmd.Flags().StringVar(&from, "from", "", "show what changes after the revision of this token; default: after the newest revision")
	cmd.Flags().StringVar(&context, "context", "", "parameters for conditions, a JSON object, or @FILE")
	return cmd
}
