package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/rel"
)

// Suggestion returns the part of an error text that suggests one of known for a
// misspelt name, or "".
func Suggestion(name string, known []string) string {
	if found := quote.Nearest(name, slices.Values(known)); found != "" {
		return fmt.Sprintf(" (did you mean %q?)", found)
	}
	return ""
}

// unknownCommand returns the error for a name that is no subcommand of cmd.
func unknownCommand(cmd *cobra.Command, name string) error {
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	near := Suggestion(name, known)
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, name) {
			near = fmt.Sprintf(" (did you mean %q?)", c.Name())
		}
	}
	if near == "" && cmd.HasParent() {
		near = " (the commands are " + strings.Join(known, ", ") + ")"
	}
	return fmt.Errorf("%w: unknown command %q for %q%s; see --help", ErrUsage, name, cmd.CommandPath(), near)
}

// flagError adds a suggestion to the error for an unknown flag.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return pflag.ErrHelp
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return ValueError("--"+invalid.GetFlag().Name, invalid)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	text := Suggestion(unknown.GetSpecifiedName(), known)
	if unknown.GetSpecifiedName() == "at" && slices.Contains(known, "from") {
		text = fmt.Sprintf("; the first point of %s is --from", cmd.Name())
		if slices.Contains(known, "to") {
			text += ", the last one --to"
		}
	}
	return fmt.Errorf("%w: %w%s", ErrUsage, err, strings.ReplaceAll(text, `mean "`, `mean "--`))
}

// ValueError returns the error for an invalid value of a flag or variable with a
// name.
func ValueError(name string, invalid *pflag.InvalidValueError) error {
	expected := map[string]string{
		"duration": "a duration, for example 30s or 1h30m", "bool": "true or false",
		"int": "a whole number", "int64": "a whole number", "uint64": "a whole number that is not negative", "float64": "a number",
	}[invalid.GetFlag().Value.Type()]
	if expected == "" { // the error of the program's own types is complete
		return fmt.Errorf("%w: %s: %w", ErrUsage, name, errors.Unwrap(invalid))
	}
	return fmt.Errorf("%w: %s: invalid value %q: expected %s", ErrUsage, name, invalid.GetValue(), expected)
}

// requireValues fails if the command line gives a flag an empty value. Such a
// value is most often a shell variable without a value. A filter would then
// match everything, and a condition or expiry would be missing from a tuple.
func requireValues(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		value := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = list.GetSlice()
		}
		if err == nil && (len(value) == 0 || slices.Contains(value, "")) {
			err = fmt.Errorf("%w: --%s has an empty value: expected a value, or no --%s", ErrUsage, f.Name, f.Name)
		}
	})
	return err
}

// RefuseNegative fails if a bound, a number of things or a duration is negative.
func RefuseNegative(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		switch value := f.Value.String(); f.Value.Type() {
		case "int", "int64", "duration", "float64":
			if err == nil && strings.HasPrefix(value, "-") {
				err = fmt.Errorf("%w: --%s: invalid value %q: expected no negative value", ErrUsage, f.Name, value)
			}
		}
	})
	return err
}

// nameArguments makes every command name its arguments in the error for a wrong
// number of them. No argument may be empty: a store without a name would be the
// only store.
func nameArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		nameArguments(sub)
	}
	check := cmd.Args
	if check == nil || cmd.HasSubCommands() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) != nil {
			path, _, _ := strings.Cut(cmd.CommandPath(), " "+cmd.Name())
			return fmt.Errorf("%w: got %s, expected: %s %s", ErrUsage, Plural(len(args), "argument"), path, cmd.Use)
		}
		if i := slices.Index(args, ""); i >= 0 {
			return fmt.Errorf("%w: argument %d of %s is empty", ErrUsage, i+1, cmd.CommandPath())
		}
		return nil
	}
}

// checkHelp makes "help" fail for a command that does not exist.
func checkHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		return
	}
	help.Args = func(_ *cobra.Command, args []string) error {
		cmd := root
		for _, name := range args {
			i := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == name || c.HasAlias(name) })
			if i < 0 {
				return unknownCommand(cmd, name)
			}
			cmd = cmd.Commands()[i]
		}
		return nil
	}
}

// usageError returns the error for an unknown command in place of cobra's, and
// err otherwise.
func usageError(root *cobra.Command, err error) error {
	rest, ok := strings.CutPrefix(err.Error(), "unknown command \"")
	if name, _, found := strings.Cut(rest, "\""); ok && found && !errors.Is(err, ErrUsage) {
		return unknownCommand(root, name)
	}
	return err
}

// warnUnknownVariables warns of variables that begin with OSTIARY_ but set no
// flag of any command.
func (a *App) warnUnknownVariables(root *cobra.Command) {
	known := []string{EnvKeys}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		add := func(f *pflag.Flag) { known = append(known, EnvName(f.Name)) }
		cmd.Flags().VisitAll(add)
		cmd.PersistentFlags().VisitAll(add)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	for i, variable := range a.Environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || value == "" {
			continue
		}
		if len(known) == 1 {
			walk(root)
		}
		if !slices.Contains(known, name) && !slices.Contains(a.Environ[:i], variable) {
			a.Note("warning: the variable %s sets no flag%s", name, Suggestion(name, known))
		}
	}
}

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

// hintedError is an error with advice, for example that the arguments are in the
// wrong order.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }

// WithHint returns err with advice that the program prints on a line of its own.
func WithHint(err error, hint string) error { return &hintedError{err, hint} }
