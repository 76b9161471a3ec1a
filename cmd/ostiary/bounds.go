package main

import (
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/eval"
)

// addBounds adds the flags of the bounds that each question has.
func (f *serveFlags) addBounds(s *pflag.FlagSet) {
	s.IntVar(&f.bounds.ConditionCost, "condition-cost", eval.ConditionCostDefault, "maximum total cost of the conditions that one check or list evaluates; a unit takes at most about one microsecond")
	s.IntVar(&f.bounds.QuestionMemory, "question-memory", eval.MemoryDefault, "maximum memory that one question may use, in bytes")
	s.IntVar(&f.bounds.QuestionsMemory, "questions-memory", 512<<20, "maximum memory that all questions may use together, in bytes; a question waits for it until its deadline")
	s.IntVar(&f.bounds.ExpandEntries, "expand-entries", eval.ExpandEntriesDefault, "maximum number of nodes and tuples in the tree of an expand")
	s.IntVar(&f.bounds.ExpandBytes, "expand-bytes", eval.ExpandBytesDefault, "maximum size of the names in the tree of an expand, in bytes")
}
