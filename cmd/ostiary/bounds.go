package main

import (
	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/eval"
)

// addBounds adds the flags of the bounds that each question has.
func (f *serveFlags) addBounds(s *pflag.FlagSet) {
	s.IntVar(&f.bounds.ConditionCost, "condition-cost", eval.ConditionCostDefault, "maximum cost of all conditions of one question, in units of at most about one microsecond")
}
