package relations

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

func (a *app) tupleWrite() *cobra.Command {
	var condition, context, expires, schemaID string
	var duplicate cli.DuplicateFlag
	cmd := &cobra.Command{Use: "write USER RELATION OBJECT", Short: "Write a tuple", Args: cobra.ExactArgs(3), Long: "Write a tuple. " + subjectHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseTriple(args)
			if err != nil {
				return err
			}
			if context != "" && condition == "" {
				return fmt.Errorf("%w: --context has the parameters of --condition, which is missing", cli.ErrUsage)
			}
			if t.Condition = condition; context != "" {
				values, err := parseContext(context)
				if err != nil {
					return err
				}
				if t.Context, err = rel.CanonicalValue(map[string]any(values)); err != nil {
					return err
				}
			}
			if expires != "" {
				now := time.Now()
				if t.Expires, err = cli.ParseExpires(expires, now); err != nil {
					return err
				}
				if t.Expires <= rel.TimeOf(now) {
					a.Note("warning: the tuple has no effect, because %s is in the past", cli.Stamp(t.Expires.Time()))
				}
			}
			w := client.Write{Add: client.TuplesOf(t), Schema: schemaID}
			if w.OnDuplicate, err = duplicate.Action(); err != nil {
				return err
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				return s.hintNames(cmd.Context(), schemaID, t, a.write(cmd.Context(), s, w, "wrote "+t.String(), "unchanged, the tuple exists: "+t.String()))
			})
		}}
	f := cmd.Flags()
	f.StringVar(&condition, "condition", "", "name of a condition in the schema")
	f.StringVar(&context, "context", "", "parameters to store with the condition, a JSON object, or @FILE")
	f.StringVar(&expires, "expires", "", "when the tuple expires: a time (RFC 3339), or a duration from now such as 1h or 7d")
	f.StringVar(&schemaID, "schema", "", "id of the schema that must admit the tuple; default: the current one")
	duplicate.Add(cmd)
	return cmd
}
