package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// annotationUses is the annotation of a command with the shared flags that it uses.
const annotationUses = "ostiary-uses"

// Uses notes which of the flags that all commands share a command and its subcommands use,
// and returns the command. It fails on the command line with any other one, because the
// command would ignore it: with --server it would answer for a folder or a log instead.
// --json is always used.
func Uses(cmd *cobra.Command, flags ...string) *cobra.Command {
	cmd.Annotations = map[string]string{annotationUses: strings.Join(append(flags, "json"), " ")}
	return cmd
}

// refuseUnused fails if the command line sets a shared flag that the command does not use.
// A variable may set it, because variables are for several commands.
func refuseUnused(cmd *cobra.Command) (err error) {
	noted := cmd
	for noted.Annotations[annotationUses] == "" {
		if noted = noted.Parent(); noted == nil {
			return nil
		}
	}
	uses := strings.Fields(noted.Annotations[annotationUses])
	cmd.Root().PersistentFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case err != nil || !f.Changed || slices.Contains(uses, f.Name):
		case f.Name == "server" && slices.Contains(uses, "secret-key-file"): // it opens a folder or a log
			err = fmt.Errorf("%w: %q asks no server over the network: expected --data FOLDER, the data folder of a node, or the URL of a log", ErrUnsupported, cmd.CommandPath())
		default:
			err = fmt.Errorf("%w: %q does not use --%s", ErrUsage, cmd.CommandPath(), f.Name)
		}
	})
	return err
}
