package serve

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// topicKey is the annotation of a flag that has its topic.
const topicKey = "topic"

// topic gives a topic to the flags of s that have none yet.
func topic(s *pflag.FlagSet, name string) {
	s.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[topicKey] == nil {
			f.Annotations = map[string][]string{topicKey: {name}}
		}
	})
}

// FlagTopic is a topic with its flags.
type FlagTopic struct {
	Name  string
	Flags *pflag.FlagSet
}

// Topics returns the flags of s by topic. Topics and flags have the order in which
// the flags were added; a flag without a topic has the topic "".
func Topics(s *pflag.FlagSet) []FlagTopic {
	var out []FlagTopic
	at := map[string]int{}
	s.VisitAll(func(f *pflag.Flag) {
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

// topicUsage prints the usage of a command with its flags by topic. It is for
// [cobra.Command.SetUsageFunc].
func topicUsage(cmd *cobra.Command) error {
	cmd.Printf("Usage:\n  %s\n", cmd.UseLine())
	for _, t := range Topics(cmd.LocalFlags()) {
		if t.Name == "" {
			t.Name = "Other flags"
		}
		cmd.Printf("\n%s:\n%s", t.Name, t.Flags.FlagUsages())
	}
	cmd.Printf("\nFlags of every command:\n%s", cmd.InheritedFlags().FlagUsages())
	return nil
}
