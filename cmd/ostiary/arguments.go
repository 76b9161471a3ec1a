package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// argumentsHint returns advice about the order of the arguments of cmd if err is
// about a name among them, or "".
func argumentsHint(cmd *cobra.Command, err error) string {
	args := cmd.Flags().Args()
	use, _, _ := strings.Cut(cmd.Use, " |")
	_, names, _ := strings.Cut(use, " ")
	if !strings.Contains(names, "RELATION") || len(args) != len(strings.Fields(names)) || !errors.Is(err, rel.ErrName) {
		return ""
	}
	hint := "the arguments are " + names
	reversed := slices.Clone(args)
	if slices.Reverse(reversed); fits(names, reversed) {
		hint += ": did you mean \"" + strings.Join(reversed, " ") + "\"?"
	}
	return hint
}

// fits reports whether args have the forms of the arguments with these names.
func fits(names string, args []string) bool {
	for i, name := range strings.Fields(names) {
		ok := false
		switch name {
		case "USER":
			_, err := rel.ParseSubject(args[i])
			ok = err == nil
		case "OBJECT":
			_, err := rel.ParseObject(args[i])
			ok = err == nil
		default: // a relation, a type, or type#relation
			ok = args[i] != "" && !strings.Contains(args[i], ":")
		}
		if !ok {
			return false
		}
	}
	return true
}

// hintSwapped returns err, which a command about the tuple t failed with. It adds
// the hint that the subject and the object are swapped if the schema has the
// relation on the type of the subject, but not on that of the object.
func (a *app) hintSwapped(ctx context.Context, schemaID string, t rel.Tuple, err error) error {
	if !isAboutNames(err) || t.Subject.Relation != "" || t.Subject.IsWildcard() {
		return err
	}
	m, modelErr := a.nativeModel(ctx, schemaID)
	if modelErr != nil || hasRelation(m, t.Object.Type, t.Relation) || !hasRelation(m, t.Subject.Type, t.Relation) {
		return err
	}
	return &swappedError{err, "the arguments are USER RELATION OBJECT: did you mean \"" +
		strings.Join([]string{t.Object.String(), t.Relation, t.Subject.String()}, " ") + "\"?"}
}

// isAboutNames reports whether err may come from a wrong type or relation.
func isAboutNames(err error) bool {
	for _, kind := range [...]error{ostiary.ErrNoRelation, ostiary.ErrNoType, ostiary.ErrInvalidTuple, ostiary.ErrTupleMissing} {
		if errors.Is(err, kind) {
			return true
		}
	}
	at, ok := errors.AsType[*remoteError](err)
	return ok && at.Status >= 400 && at.Status < 500
}

// swappedError is an error whose arguments are probably in the wrong order.
type swappedError struct {
	error
	hint string
}

func (e *swappedError) Unwrap() error { return e.error }

// hasRelation reports whether a model has a relation on a type.
func hasRelation(m *schema.Model, typ, relation string) bool {
	for _, d := range m.Types {
		if d.Name == typ {
			return slices.ContainsFunc(d.Relations, func(r schema.RelationDef) bool { return r.Name == relation })
		}
	}
	return false
}
