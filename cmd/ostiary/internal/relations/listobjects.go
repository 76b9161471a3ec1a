package relations

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

func (a *app) listObjects() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{Use: "objects USER RELATION TYPE", Short: "List the objects of a type that a subject has a relation on",
		Args: cobra.ExactArgs(3), RunE: func(cmd *cobra.Command, args []string) error {
			subject, err := rel.ParseSubject(args[0])
			if err != nil {
				return err
			}
			about := rel.Tuple{Object: rel.Object{Type: args[2]}, Relation: args[1], Subject: subject}
			return a.ask(cmd.Context(), &flags.queryFlags, about, func(s *found, q client.Query) error {
				out := listJSON{Objects: []string{}}
				err := flags.eachPage(&out, func(page client.Page) (client.List, error) {
					return s.ListObjects(cmd.Context(), client.ListObjects{Type: args[2], Relation: args[1], Subject: subject.String(), Page: page, Query: q})
				})
				if err != nil {
					return err
				}
				return a.printList(&out, out.Objects)
			})
		}}
	flags.add(cmd)
	return cmd
}
