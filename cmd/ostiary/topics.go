package main

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

// flagTopic is a topic with its flags.
type flagTopic struct {
	name  string
	flags *pflag.FlagSet
}

// topics returns the flags of s by topic. Topics and flags have the order in which
// the flags were added; a flag without a topic has the topic "".
func topics(s *pflag.FlagSet) []flagTopic {
	var out []flagTopic
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
			out = append(out, flagTopic{name, pflag.NewFlagSet("", pflag.ContinueOnError)})
			out[i].flags.SortFlags = false
		}
		out[i].flags.AddFlag(f)
	})
	return out
}

// topicUsage prints the usage of a command with its flags by topic. It is for
// [cobra.Command.SetUsageFunc].
func topicUsage(cmd *cobra.Command) error {
	cmd.Printf("Usage:\n  %s\n", cmd.UseLine())
	for _, t := range topics(cmd.LocalFlags()) {
		if t.name == "" {
			t.name = "Other flags"
		}
		cmd.Printf("\n%s:\n%s", t.name, t.flags.FlagUsages())
	}
	cmd.Printf("\nFlags of every command:\n%s", cmd.InheritedFlags().FlagUsages())
	return nil
}
