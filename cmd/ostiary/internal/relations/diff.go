package relations

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

func (a *app) diffCommand() *cobra.Command {
	var flags permissionFlags
	var from, to, schema, context, cursor string
	var limit int
	cmd := &cobra.Command{Use: "diff TYPE[#RELATION] RELATION TYPE", Short: "Show which subjects gained or lost a relation between two revisions", Args: cobra.ExactArgs(3),
		Long: "Show which subjects of the first type gained (+) or lost (-) a relation on objects of the second type between two revisions.\n" +
			"--from and --to are a revision, a token, or a time (RFC 3339).",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := requireTypeNames(args); err != nil {
				return err
			}
			typ, relation := splitType(args[0])
			in := &differenceRequest{SubjectType: typ, SubjectRelation: relation, Relation: args[1], ObjectType: args[2],
				Objects: ids(args[2], "", flags.objects), Subjects: ids(typ, relation, flags.subjects), Schema: schema, Page: client.Page{Limit: limit, Cursor: cursor}}
			var err error
			if in.Context, err = parseContext(context); err != nil {
				return err
			}
			if in.From, err = parseAt("--from", from); err != nil {
				return err
			}
			if in.To, err = parseAt("--to", to); err != nil {
				return err
			}
			if in.To == nil {
				in.To = &client.At{}
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				if err := flags.requireOwnTypes(cmd.Context(), s, args[2], args[0]); err != nil {
					return err
				}
				if err := s.requireRevision(cmd.Context(), in.From, in.To); err != nil {
					return err
				}
				return a.diff(cmd.Context(), s, in, limit > 0)
			})
		}}
	flags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&from, "from", "0", "show what changed after this revision, token or time")
	f.StringVar(&to, "to", "", "show what changed up to this revision, token or time (included); default: the newest revision")
	f.StringVar(&schema, "schema", "", "id of the schema to use for both; default: the schema that was current at each")
	f.StringVar(&context, "context", "", "parameters for conditions, a JSON object, or @FILE")
	cli.CountVar(f, &limit, "limit", 0, 0, "maximum number of changes; default: all")
	f.StringVar(&cursor, "cursor", "", "cursor that a diff with --limit printed; continues that diff")
	return cmd
}

// differenceRequest is the body of a request for a difference.
type differenceRequest struct {
	SubjectType     string         `json:"subject_type"`
	SubjectRelation string         `json:"subject_relation,omitempty"`
	Relation        string         `json:"relation"`
	ObjectType      string         `json:"object_type"`
	Objects         []string       `json:"objects,omitempty"`
	Subjects        []string       `json:"subjects,omitempty"`
	Schema          string         `json:"schema,omitempty"`
	Context         map[string]any `json:"context,omitempty"`
	From            *client.At     `json:"from"`
	To              *client.At     `json:"to"`
	client.Page
}

// diff prints all pages of a difference, or one page if one is true.
func (a *app) diff(ctx context.Context, s *found, in *differenceRequest, one bool) error {
	for shown := 0; ; {
		text, err := s.ask(ctx, "/difference", in)
		if err != nil {
			return s.hintOrder(ctx, in.SubjectType, in.Relation, in.ObjectType, err)
		}
		var page struct {
			Changes   []permissionChange
			Next      string
			Undecided int
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return err
		}
		if err := a.printNative(text, &page, func(w io.Writer) {
			for i := range page.Changes {
				page.Changes[i].print(w, in.Relation, a.Colored())
			}
		}); err != nil {
			return err
		}
		if page.Undecided > 0 {
			a.Note("%d unknown before and after", page.Undecided)
		}
		shown += len(page.Changes) + page.Undecided
		if in.Cursor = page.Next; in.Cursor == "" {
			if shown == 0 {
				a.Note("no differences")
			}
			return nil
		}
		if one {
			a.Note("more results: --cursor %s", in.Cursor)
			return nil
		}
	}
}
