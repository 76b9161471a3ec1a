package relations

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/rel"
)

func (a *app) listSubjects() *cobra.Command {
	var flags listFlags
	cmd := &cobra.Command{Use: "subjects TYPE[#RELATION] RELATION OBJECT", SuggestFor: []string{"users"}, Short: "List the subjects of a type that have a relation on an object",
		Args: cobra.ExactArgs(3), RunE: func(cmd *cobra.Command, args []string) error {
			object, err := rel.ParseObject(args[2])
			if err == nil {
				err = requireNoWildcard(object)
			}
			if err != nil {
				return err
			}
			typ, relation := splitType(args[0])
			about := rel.Tuple{Object: object, Relation: args[1], Subject: rel.Subject{Type: typ}}
			return a.ask(cmd.Context(), &flags.queryFlags, about, func(s *found, q client.Query) error {
				out := listJSON{Subjects: []string{}}
				if relation == "" {
					out.everybody = typ + ":" + rel.Wildcard
				}
				err := flags.eachPage(&out, func(page client.Page) (client.List, error) {
					return s.ListSubjects(cmd.Context(), client.ListSubjects{Object: args[2], Relation: args[1], SubjectType: typ, SubjectRelation: relation, Page: page, Query: q})
				})
				if err != nil {
					return err
				}
				return a.printList(&out, out.Subjects)
			})
		}}
	flags.add(cmd)
	return cmd
}
