package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga/language"
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
	if fits(names, args) {
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

// hintNames returns err, which a command about the tuple t failed with. A tuple of
// a list has no id, and no type where the command has no subject. It adds the hint
// that the subject and the object are swapped if the schema has the relation on the
// type of the subject, but not on that of the object, or that the schema lacks the
// condition. To the error of a server it
// adds the name that is similar to a misspelt one.
func (a *app) hintNames(ctx context.Context, schemaID string, t rel.Tuple, err error) error {
	if !isAboutNames(err) {
		return err
	}
	m, modelErr := a.knownModel(ctx, schemaID)
	if modelErr != nil {
		return err
	}
	var conditions []string
	for i := range m.Conditions {
		conditions = append(conditions, m.Conditions[i].Name)
	}
	if t.Condition != "" && !slices.Contains(conditions, t.Condition) {
		return &swappedError{err, fmt.Sprintf("the schema has no condition %q%s", t.Condition, suggestion(t.Condition, conditions))}
	}
	swappable := t.Subject.ID != "" && t.Subject.Relation == "" && !t.Subject.IsWildcard()
	if swappable && !hasRelation(m, t.Object.Type, t.Relation) && hasRelation(m, t.Subject.Type, t.Relation) {
		return &swappedError{err, "the arguments are USER RELATION OBJECT: did you mean \"" +
			strings.Join([]string{t.Object.String(), t.Relation, t.Subject.String()}, " ") + "\"?"}
	}
	if _, ok := errors.AsType[*remoteError](err); !ok || strings.Contains(err.Error(), "did you mean") {
		return err // the engine's own errors have suggestions
	}
	return withSuggestion(err, misspelt(m, t))
}

// withSuggestion adds a text of [suggestion] to an error, unless it is "".
func withSuggestion(err error, text string) error {
	if text == "" {
		return err
	}
	return fmt.Errorf("%w%s", err, text)
}

// misspelt returns a suggestion for the first type or relation of t that a model
// lacks, or "".
func misspelt(m *schema.Model, t rel.Tuple) string {
	for _, typ := range [...]string{t.Object.Type, t.Subject.Type} {
		if typ != "" && relationsOf(m, typ) == nil {
			return suggestion(typ, typesOfModel(m))
		}
	}
	if t.Relation != "" && !hasRelation(m, t.Object.Type, t.Relation) {
		return suggestion(t.Relation, relationsOf(m, t.Object.Type))
	}
	if t.Subject.Relation != "" && !hasRelation(m, t.Subject.Type, t.Subject.Relation) {
		return suggestion(t.Subject.Relation, relationsOf(m, t.Subject.Type))
	}
	return ""
}

// knownModel returns the model of a schema; "" is the current one. It works with
// every server that has OpenFGA's API.
func (a *app) knownModel(ctx context.Context, schemaID string) (*schema.Model, error) {
	m, err := a.nativeModel(ctx, schemaID)
	if r := a.remote(); r != nil && isForeign(err) {
		raw, err := r.foreignModel(ctx, schemaID)
		if err != nil {
			return nil, err
		}
		m, _, err = language.ParseJSON(raw)
		return m, err
	}
	return m, err
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

// swappedError is an error with a hint about its arguments, which are for example
// in the wrong order.
type swappedError struct {
	error
	hint string
}

func (e *swappedError) Unwrap() error { return e.error }

// hasRelation reports whether a model has a relation on a type.
func hasRelation(m *schema.Model, typ, relation string) bool {
	return slices.Contains(relationsOf(m, typ), relation)
}

// relationsOf returns the relations that a model has on a type. It is nil if the
// model lacks the type.
func relationsOf(m *schema.Model, typ string) []string {
	for i := range m.Types {
		if d := &m.Types[i]; d.Name == typ {
			out := make([]string, len(d.Relations))
			for j := range d.Relations {
				out[j] = d.Relations[j].Name
			}
			return out
		}
	}
	return nil
}
