package relations

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/internal/storetest"
	"github.com/ostiary/ostiary/cmd/internal/tuplefile"
)

// assertion is an assertion in OpenFGA's API.
type assertion struct {
	Key         tuplefile.Record   `json:"tuple_key"`
	Expectation bool               `json:"expectation"`
	Tuples      []tuplefile.Record `json:"contextual_tuples,omitempty"`
	Context     map[string]any     `json:"context,omitempty"`
}

// assertedJSON is the JSON form of the result of schema assert.
type assertedJSON struct {
	Schema     string `json:"schema"`
	Assertions int    `json:"assertions"`
	// LeftOut is the number of lists in the files, which no assertion can express.
	LeftOut int `json:"left_out,omitempty"`
}

func (a *app) schemaAssert() *cobra.Command {
	return &cobra.Command{Use: "assert FILE.fga.yaml…", Short: "Write the checks of OpenFGA store tests as assertions of the current schema", Args: cobra.MinimumNArgs(1),
		Long: "Write the checks of OpenFGA store tests (.fga.yaml files) as assertions of the store's current schema, in place of its assertions.\n" +
			"The tuples of a test become contextual tuples of its assertions. The model and the tuples of the file are not written: see\n" +
			"\"ostiary schema write\" and \"ostiary tuple import\". Tests of lists are left out, because an assertion is a check.",
		RunE: func(cmd *cobra.Command, args []string) error {
			out, list := assertedJSON{}, []assertion{}
			for _, name := range args {
				more, leftOut, err := readAssertions(name)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				list, out.LeftOut = append(list, more...), out.LeftOut+leftOut
			}
			return a.onStore(cmd.Context(), func(s *found) error {
				current, err := s.Schema(cmd.Context(), "")
				if err != nil {
					return err
				}
				out.Schema, out.Assertions = current.ID, len(list)
				if _, err := s.server.Call(cmd.Context(), http.MethodPut, "/stores/"+s.info.ID+"/assertions/"+out.Schema, map[string]any{"assertions": list}, nil); err != nil {
					return err
				}
				return a.Print(out, func(w io.Writer) {
					cli.Printf(w, "wrote %s of schema %s", cli.Plural(out.Assertions, "assertion"), out.Schema)
					if out.LeftOut > 0 {
						cli.Printf(w, "; %s left out", cli.Plural(out.LeftOut, "list"))
					}
					cli.Println(w)
				})
			})
		}}
}

// readAssertions returns the checks of a store-test file as assertions, and the
// number of its lists.
func readAssertions(name string) (list []assertion, leftOut int, err error) {
	text, err := cli.ReadFile(name, storetest.FileBytesMax+1)
	if err != nil {
		return nil, 0, err
	}
	file, err := storetest.Parse(text)
	if err != nil {
		return nil, 0, err
	}
	for i := range file.Tests {
		t := &file.Tests[i]
		more, err := storetest.ReadTuples(cli.FolderFS(filepath.Dir(name)), t.TupleFiles)
		if err != nil {
			return nil, 0, err
		}
		var tuples []tuplefile.Record
		for _, tuple := range slices.Concat(t.Tuples, more) {
			record, err := tuplefile.RecordOf(tuple)
			if err != nil {
				return nil, 0, err
			}
			tuples = append(tuples, record)
		}
		list = append(list, assertionsOf(t, tuples)...)
		leftOut += len(t.ListObjects) + len(t.ListUsers)
	}
	return list, leftOut, nil
}

// assertionsOf returns the checks of a test as assertions with contextual tuples.
func assertionsOf(t *storetest.Test, tuples []tuplefile.Record) (out []assertion) {
	for _, c := range t.Checks {
		for _, user := range c.Users {
			for _, object := range c.Objects {
				for _, want := range c.Assertions {
					key := tuplefile.Record{User: user.String(), Relation: want.Relation, Object: object.String()}
					out = append(out, assertion{key, want.Want, tuples, c.Context})
				}
			}
		}
	}
	return out
}
