package relations

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// argumentKind is a kind of argument that the shell can complete.
type argumentKind int

const (
	noCompletion argumentKind = iota
	storeArgument
	relationArgument
	typeArgument
	fileArgument
)

// completedArguments are the kinds of the arguments of commands, by the path of
// the command. Subjects and objects are not completed, because a store may have
// millions of them.
var completedArguments = map[string][]argumentKind{
	"check": {noCompletion, relationArgument}, "explain": {noCompletion, relationArgument}, "expand": {relationArgument},
	"tuple write": {noCompletion, relationArgument}, "tuple delete": {noCompletion, relationArgument},
	"list objects": {noCompletion, relationArgument, typeArgument}, "list subjects": {typeArgument, relationArgument},
	"diff": {typeArgument, relationArgument, typeArgument}, "watch": {typeArgument, relationArgument, typeArgument},
	"migrate":   {fileArgument, fileArgument},
	"store get": {storeArgument}, "store rename": {storeArgument}, "store delete": {storeArgument}, "store alias": {storeArgument},
	"schema write": {fileArgument}, "schema validate": {fileArgument}, "schema test": {fileArgument}, "tuple import": {fileArgument}, "tuple export": {fileArgument},
}

// completedFlags are the values of flags that have few.
var completedFlags = map[string][]string{
	"on-duplicate": {"error", "ignore", "replace"}, "on-missing": {"error", "ignore"}, "auth": {cli.AuthNone, cli.AuthPreshared, cli.AuthKeys},
	"log-format": {"text", "json"}, "log-level": {"debug", "info", "warn", "error"}, "spec": {"none", "defra"}, "driver": {"pebble", "memory"},
}

// completeArguments makes the shell complete the arguments and flags of cmd and its
// subcommands.
func (a *app) completeArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.completeArguments(sub)
	}
	path := strings.TrimPrefix(cmd.CommandPath(), "ostiary ")
	if kinds, ok := completedArguments[path]; ok {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return a.complete(cmd, kinds, args, prefix)
		}
	}
	for name, values := range completedFlags {
		if cmd.Flags().Lookup(name) != nil {
			cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	formats := map[string][]string{"tuple": {"csv", "json", "jsonl", "yaml"}, "schema": {"source", "dsl", "json"}}
	if parent := cmd.Parent(); cmd.Flags().Lookup("format") != nil && parent != nil && formats[parent.Name()] != nil {
		cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats[parent.Name()], cobra.ShellCompDirectiveNoFileComp))
	}
}

// complete returns the values of the next argument that begin with prefix. After
// an error it returns none.
func (a *app) complete(cmd *cobra.Command, kinds []argumentKind, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) >= len(kinds) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var values []string
	switch kinds[len(args)] {
	case fileArgument:
		return nil, cobra.ShellCompDirectiveDefault
	case storeArgument:
		values = a.storeNames(cmd)
	case relationArgument:
		_, values = a.schemaNames(cmd)
	case typeArgument:
		values, _ = a.schemaNames(cmd)
	}
	slices.Sort(values)
	return slices.DeleteFunc(slices.Compact(values), func(v string) bool { return !strings.HasPrefix(v, prefix) }), cobra.ShellCompDirectiveNoFileComp
}

// prepareCompletion applies the environment. A completion must not wait for
// another command.
func (a *app) prepareCompletion(cmd *cobra.Command) error {
	err := a.Environment(cmd.Flags())
	a.LockWait = time.Duration(0)
	return err
}

// storeNames returns the names of all stores.
func (a *app) storeNames(cmd *cobra.Command) (names []string) {
	if a.prepareCompletion(cmd) != nil {
		return nil
	}
	stores, err := a.allStores(cmd.Context())
	if err != nil {
		return nil
	}
	for _, s := range stores {
		names = append(names, s.Name)
	}
	return names
}

// schemaNames returns the types and the relations of the current schema.
func (a *app) schemaNames(cmd *cobra.Command) (types, relations []string) {
	if a.prepareCompletion(cmd) != nil {
		return nil, nil
	}
	a.onStore(cmd.Context(), func(s *found) error {
		sc, err := s.Schema(cmd.Context(), "")
		if err != nil {
			return err
		}
		types = typesOfModel(sc.Model)
		for _, t := range types {
			relations = append(relations, relationsOf(sc.Model, t)...)
		}
		return nil
	})
	return types, relations
}
