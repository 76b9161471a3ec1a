package relations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

// permissionChange is one change in the output of diff and watch.
type permissionChange struct {
	Object, Subject string
	Before, After   string
	Except          []string
	ExceptCount     int `json:"except_count"`
}

// print writes one line: + for a gain, - for a loss, and ? if the decision before
// or after is unknown.
func (c *permissionChange) print(w io.Writer, relation string, color bool) {
	sign := "?"
	switch {
	case c.After == "true":
		sign = "+"
	case c.Before == "true":
		sign = "-"
	}
	line := fmt.Sprintf("%s %s %s %s", sign, c.Subject, relation, c.Object)
	if c.ExceptCount > 0 {
		line += fmt.Sprintf(" (except %s", strings.Join(c.Except, " "))
		if more := c.ExceptCount - len(c.Except); more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		line += ")"
	}
	if sign == "?" {
		line += fmt.Sprintf(" (%s, was %s)", c.After, c.Before)
	}
	if begin := map[string]string{"+": cli.ColorGreen, "-": cli.ColorRed}[sign]; color && begin != "" {
		cli.Printf(w, begin+"%s"+cli.ColorOff+"\n", line)
		return
	}
	cli.Println(w, line)
}

// permissionFlags restrict diff and watch to some objects and subjects.
type permissionFlags struct{ objects, subjects []string }

func (f *permissionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.objects, "object", nil, "show only this object, by its id with or without its type; may be repeated")
	cmd.Flags().StringSliceVar(&f.subjects, "subject", nil, "show only this subject, by its id with or without its type; may be repeated")
}

// ids returns the ids of subjects of a type, or type#relation, or of objects of a
// type. A name may have the type before its id.
func ids(typ, relation string, names []string) (out []string) {
	for _, name := range names {
		id, typed := strings.CutPrefix(name, typ+":")
		if typed && relation != "" {
			id = strings.TrimSuffix(id, "#"+relation)
		}
		out = append(out, id)
	}
	return out
}

// requireOwnTypes fails if the names of --object or --subject have another type than
// the objects of a type, or the subjects of TYPE[#RELATION].
func (f *permissionFlags) requireOwnTypes(ctx context.Context, s *found, objectType, subjectType string) error {
	for _, x := range [...]struct {
		flag, what, typ string
		names           []string
	}{{"--object", "objects", objectType, f.objects}, {"--subject", "subjects", subjectType, f.subjects}} {
		want, relation := splitType(x.typ)
		for _, name := range x.names {
			typ, id, typed := strings.Cut(name, ":")
			if !typed {
				continue
			}
			_, has, _ := strings.Cut(id, "#")
			if typ == want && (has == "" || has == relation) {
				continue
			}
			if typ != want { // an id may have a colon
				if sc, err := s.Schema(ctx, ""); err != nil || relationsOf(sc.Model, typ) == nil {
					continue
				}
			}
			return fmt.Errorf("%w: invalid %s %q: the %s are of the type %s: expected an id, or %s:ID", cli.ErrUsage, x.flag, name, x.what, x.typ, want)
		}
	}
	return nil
}

// requireTypeNames fails if the arguments TYPE[#RELATION] RELATION TYPE name an object
// or a subject.
func requireTypeNames(args []string) error {
	for i, flag := range map[int]string{0: "--subject", 2: "--object"} {
		if typ, _, ok := strings.Cut(args[i], ":"); ok {
			return fmt.Errorf("%w: invalid type %q: expected %s; to select one, add %s %s", cli.ErrUsage, args[i], typ, flag, args[i])
		}
	}
	return nil
}

// splitType parses TYPE[#RELATION].
func splitType(s string) (typ, relation string) {
	typ, relation, _ = strings.Cut(s, "#")
	return typ, relation
}

// errEnded means that a server ended a stream, which has no end of its own.
var errEnded = errors.New("the server ended the stream")

// eachEvent calls f with the data of each event of a watch that begins after a token.
// An interrupt is the normal end. If a server ends the watch, the error has the token
// from which to continue.
func (a *app) eachEvent(ctx context.Context, events iter.Seq2[client.Event, error], last string, f func(json.RawMessage) error) error {
	for e, err := range events {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (a.Server == "" || isResponse(err) || !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET)):
			return err
		case err != nil:
			return ended(last)
		}
		if err := f(e.Data); err != nil {
			return err
		}
		last = e.Token
	}
	if ctx.Err() != nil || a.Server == "" {
		return nil
	}
	return ended(last)
}

// ended returns the error of a watch that a server ended after the event with a token.
func ended(last string) error {
	return fmt.Errorf("%w: it stops, or no longer accepts the key; to continue, run the command again with --from %s", errEnded, last)
}
