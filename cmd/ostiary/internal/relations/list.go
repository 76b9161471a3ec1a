package relations

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

// listFlags select a page of a list. Without a limit the command reads all pages.
type listFlags struct {
	queryFlags
	limit  int
	cursor string
}

func (f *listFlags) add(cmd *cobra.Command) {
	f.queryFlags.add(cmd)
	cli.CountVar(cmd.Flags(), &f.limit, "limit", 0, 0, "maximum number of results; default: all")
	cmd.Flags().StringVar(&f.cursor, "cursor", "", "cursor that a list with --limit printed; continues that list")
}

// eachPage reads pages into out, from the cursor of the flags, until the list ends or
// a bound cuts it; with --limit it reads one.
func (f *listFlags) eachPage(out *listJSON, read func(client.Page) (client.List, error)) error {
	for out.Next = f.cursor; ; {
		page, err := read(client.Page{Limit: f.limit, Cursor: out.Next})
		if err != nil {
			return err
		}
		if out.add(&page); out.Next == "" || f.limit > 0 || out.Incomplete != "" {
			return nil
		}
	}
}

// listJSON is the JSON form of a list.
type listJSON struct {
	// Objects is nil for a list of subjects, and Subjects for a list of objects.
	Objects  []string `json:"objects,omitzero"`
	Subjects []string `json:"subjects,omitzero"`
	// Excluded are the subjects that a wildcard in Subjects does not include.
	Excluded       []string `json:"excluded,omitempty"`
	Next           string   `json:"next,omitempty"`
	Undecided      []string `json:"undecided,omitempty"`
	UndecidedCount int      `json:"undecided_count,omitempty"`
	everybody      string   // the wildcard that is listed if all subjects have the relation; "" lists none
	bound          string   // that left entries undecided
	Reason         string   `json:"reason,omitempty"`
	Incomplete     string   `json:"incomplete,omitempty"`
	Revision       uint64   `json:"revision"`
}

func (a *app) listCommand() *cobra.Command {
	return cli.Group("list", "List objects or subjects", a.listObjects(), a.listSubjects())
}

// add adds a page.
func (l *listJSON) add(page *client.List) {
	if page.Everybody == "true" && l.everybody != "" && len(l.Subjects) == 0 {
		l.Subjects = append(l.Subjects, l.everybody)
	}
	l.Objects, l.Subjects, l.Excluded = append(l.Objects, page.Objects...), append(l.Subjects, page.Subjects...), append(l.Excluded, page.Except...)
	if u := page.Undecided; u != nil {
		l.Undecided, l.UndecidedCount = append(l.Undecided, u.Some...), l.UndecidedCount+u.Count
		if u.Reasons != nil {
			l.Reason, l.bound = u.Reasons.String(), cmp.Or(u.Reasons.Bound, l.bound)
		}
	}
	l.Next, l.Incomplete, l.Revision = page.Next, page.Cut, page.Revision
}

// firstUndecided names the first undecided entries.
func (l *listJSON) firstUndecided() string {
	names := strings.Join(l.Undecided[:min(len(l.Undecided), 5)], " ")
	if l.UndecidedCount > 5 {
		names += " …"
	}
	return names
}

// printList prints one name per line, and remarks to stderr. It returns ErrBound
// if a bound cut the list, and prints nothing if a bound left an entry undecided.
func (a *app) printList(out *listJSON, names []string) error {
	if out.bound != "" {
		return fmt.Errorf("%w: %s: %d undecided: %s", cli.ErrBound, out.bound, out.UndecidedCount, out.firstUndecided())
	}
	err := a.Print(out, func(w io.Writer) {
		for _, n := range names {
			cli.Println(w, n)
		}
		for _, n := range out.Excluded {
			cli.Println(w, "except "+n)
		}
	})
	if err != nil {
		return err
	}
	if out.UndecidedCount > 0 {
		a.Note("%d undecided (%s): %s", out.UndecidedCount, out.Reason, out.firstUndecided())
	}
	if out.Next != "" {
		a.Note("more results: --cursor %s", out.Next)
	}
	if out.Incomplete != "" {
		return fmt.Errorf("%w: %s: the list is incomplete", cli.ErrBound, out.Incomplete)
	}
	return nil
}
