package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The annotations of a flag.
const (
	topicKey = "topic" // its topic
	rareKey  = "rare"  // present if only --help-all shows it
)

// Topic gives a topic to the flags of s that have none yet.
func Topic(s *pflag.FlagSet, name string) { annotate(s, map[string][]string{topicKey: {name}}) }

// Rare gives a topic to the flags of s that have none yet, and makes --help leave them out:
// --help-all shows them. Such a flag is a bound, a size, or a setting that few deployments
// need.
func Rare(s *pflag.FlagSet, name string) {
	annotate(s, map[string][]string{topicKey: {name}, rareKey: nil})
}

func annotate(s *pflag.FlagSet, annotations map[string][]string) {
	s.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[topicKey] == nil {
			f.Annotations = annotations
		}
	})
}

// IsRare reports whether --help leaves a flag out.
func IsRare(f *pflag.Flag) bool {
	_, rare := f.Annotations[rareKey]
	return rare
}

// FlagTopic is a topic with its flags.
type FlagTopic struct {
	Name  string
	Flags *pflag.FlagSet
}

// Topics returns the flags of s by topic, without the rare ones unless all is true. Topics
// and flags have the order in which the flags were added; a flag without a topic has the
// topic "".
func Topics(s *pflag.FlagSet, all bool) []FlagTopic {
	var out []FlagTopic
	at := map[string]int{}
	s.VisitAll(func(f *pflag.Flag) {
		if IsRare(f) && !all {
			return
		}
		name := ""
		if names := f.Annotations[topicKey]; len(names) > 0 {
			name = names[0]
		}
		i, known := at[name]
		if !known {
			i = len(out)
			at[name] = i
			out = append(out, FlagTopic{name, pflag.NewFlagSet("", pflag.ContinueOnError)})
			out[i].Flags.SortFlags = false
		}
		out[i].Flags.AddFlag(f)
	})
	return out
}

// helpAllName is the name of the flag that shows the help with all flags.
const helpAllName = "help-all"

// helpAll is the value of --help-all. As --help, it ends the parsing of the command line.
type helpAll struct{ app *App }

// String implements [pflag.Value].
func (helpAll) String() string { return "false" }

// Type implements [pflag.Value].
func (helpAll) Type() string { return "bool" }

// Set implements [pflag.Value].
func (h helpAll) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return err
	}
	if h.app.helpAll = on; on {
		return pflag.ErrHelp
	}
	return nil
}

// usage prints the usage of a command: its commands, its own flags by topic, and where the
// other flags are. With --help-all it prints those as well. It is for
// [cobra.Command.SetUsageFunc].
func (a *App) usage(cmd *cobra.Command) error {
	var out strings.Builder
	out.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&out, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&out, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	if cmd.HasAvailableSubCommands() {
		out.WriteString("\nAvailable Commands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(&out, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	own := Topics(cmd.LocalFlags(), a.helpAll)
	for _, t := range own {
		switch {
		case t.Name == "" && len(own) == 1:
			t.Name = "Flags"
		case t.Name == "":
			t.Name = "Other flags"
		}
		fmt.Fprintf(&out, "\n%s:\n%s", t.Name, t.Flags.FlagUsages())
	}
	rare := 0
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if IsRare(f) {
			rare++
		}
	})
	if rare > 0 && !a.helpAll {
		fmt.Fprintf(&out, "\n%d more flags are bounds, sizes and settings that few deployments need: \"%s --help-all\" shows them.\n", rare, cmd.CommandPath())
		out.WriteString("Like the others, they can be set in a configuration file (--config) and in the environment.\n")
	}
	switch {
	case !cmd.HasAvailableInheritedFlags():
	case a.helpAll:
		fmt.Fprintf(&out, "\nFlags of every command:\n%s", cmd.InheritedFlags().FlagUsages())
	default:
		fmt.Fprintf(&out, "\nFlags of every command: see \"%s --help\" or \"%s --help-all\".\n", cmd.Root().Name(), cmd.CommandPath())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "\nUse \"%s [command] --help\" for more information about a command.\n", cmd.CommandPath())
	}
	cmd.Print(out.String())
	return nil
}
