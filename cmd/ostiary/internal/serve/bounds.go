package serve

import (
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/expr/cel"
)

// addBounds adds the flags of the bounds that each question has.
func (f *serveFlags) addBounds(s *pflag.FlagSet) {
	s.IntVar(&f.bounds.ConditionCost, "condition-cost", authz.ConditionCostDefault, "maximum total cost of the conditions that one check or list evaluates; a unit takes at most about one microsecond")
	s.Uint64Var(&f.conditions.CostMax, "condition-evaluation-cost", cel.CostMaxDefault, "maximum cost of one evaluation of a condition")
	s.IntVar(&f.conditions.RegexSizeMax, "regex-size", cel.RegexSizeMaxDefault, "maximum number of bytes, and of instructions, of a regular expression in a condition")
	cli.BytesVar(s, &f.conditions.RegexInputMax, "regex-input", cel.RegexInputMaxDefault, "maximum length of a string that a condition matches with a regular expression")
	cli.BytesVar(s, &f.bounds.QuestionMemory, "question-memory", authz.MemoryDefault, "maximum memory that the evaluation of one check, list or other question may use; a question that needs more fails")
	cli.BytesVar(s, &f.bounds.QuestionsMemory, "questions-memory", 512<<20, "maximum memory that the questions in progress may use together, in addition to --memory-bytes; a question that needs more waits for it until its deadline")
	s.IntVar(&f.bounds.ExpandEntries, "expand-entries", authz.ExpandEntriesDefault, "maximum number of nodes and tuples in the tree of an expand")
	cli.BytesVar(s, &f.bounds.ExpandBytes, "expand-bytes", authz.ExpandBytesDefault, "maximum size of the names in the tree of an expand")
}

// engineBounds returns the bounds of the engine. An append ends before the request
// does, with the look at the log that follows a failed one, so that the client gets the
// outcome.
func (f *serveFlags) engineBounds() authz.Bounds {
	b := f.bounds
	b.DepthMax = depthMax
	b.AppendTime = f.requestTimeout * 2 / 3
	b.GroupsAhead = f.nodes.groupsAhead
	return b
}
