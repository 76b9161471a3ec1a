package history

import (
	"errors"
	"math"

	"github.com/anishathalye/porcupine"

	"github.com/ostiary/ostiary/authz"
)

// linear checks with porcupine that what must be linearizable is: writes of
// tuples with fully consistent reads, and the creation and deletion of stores with an
// alias. Each tuple and each alias is a register that is set or not.
func (j *judge) linear() {
	registers := map[[2]int][]porcupine.Operation{}
	firsts := map[string]int64{} // when the first attempt of a repeated write is known to be made
	for _, c := range j.calls {
		if j.isRepetition(c) {
			firsts[c.Mark] = c.Ended
		}
	}
	for _, c := range j.calls {
		if op, ok := operation(c); ok && !j.isRepetition(c) {
			if j.hadNothing(c) {
				op.Output, op.Call = true, j.first(c).Began
			}
			if ended, known := firsts[c.Mark]; known && !c.Again {
				op.Return = ended
			}
			key := [2]int{0, c.Thing}
			if c.Kind == Claim || c.Kind == Release {
				key[0] = 1
			}
			registers[key] = append(registers[key], op)
		}
	}
	for key, ops := range registers {
		if !porcupine.CheckOperations(register, ops) {
			j.fail("not linearizable: %s %d", [...]string{"the tuple of document", "the alias"}[key[0]], key[1])
			for _, op := range ops {
				c := op.Input.(*Call)
				j.fail("  from %d to %d: %s, read %t", c.Began, op.Return, c, c.There)
			}
		}
	}
}

// isRepetition reports whether a call was answered as the repetition of a write that had
// been made before.
func (j *judge) isRepetition(c *Call) bool {
	return c.Again && c.Outcome == Made && c.Revision <= c.Before && !j.hadNothing(c)
}

// operation returns a call as an operation on its register. ok is false if it tells
// nothing of the register.
func operation(c *Call) (op porcupine.Operation, ok bool) {
	op = porcupine.Operation{Input: c, Call: c.Began, Return: c.Ended}
	switch {
	case c.Outcome == Failed, c.Kind.IsRead() && c.Kind != Full, c.Kind == PutSecret, c.Kind == ReadSecret:
		return op, false
	case c.Outcome == Refused && errors.Is(c.Err, authz.ErrPrecondition):
		return op, false
	case c.Outcome == Open && c.Kind == Full:
		return op, false
	case c.Outcome == Open:
		op.Return = math.MaxInt64 // it may take effect at any time, which includes never
	}
	return op, true
}

// register is the model of a tuple or an alias.
var register = porcupine.Model{
	Init: func() any { return false },
	Step: func(state, input, output any) (bool, any) {
		set, c := state.(bool), input.(*Call)
		if c.Kind == Full {
			return c.There == set, set
		}
		sets := c.Kind == Add || c.Kind == Claim
		switch {
		case c.Outcome == Refused || output != nil: // or nothing to do
			return set == sets, set
		case c.Outcome == Open:
			return true, sets // one without effect comes last
		}
		return set != sets, sets
	},
}
