package sim

import (
	"errors"
	"math"

	"github.com/anishathalye/porcupine"

	"github.com/ostiary/ostiary"
)

// judgeLinear checks with porcupine that what must be linearizable is: writes of
// tuples with fully consistent reads, and the creation and deletion of stores with an
// alias. Each tuple and each alias is a register that is set or not.
func (w *world) judgeLinear(p *past, calls []*call) {
	registers := map[[2]int][]porcupine.Operation{}
	firsts := map[string]int64{} // when the first attempt of a repeated write is known to be made
	for _, c := range calls {
		if c.isRepetition(p) {
			firsts[c.mark] = c.ended
		}
	}
	for _, c := range calls {
		if op, ok := operation(c); ok && !c.isRepetition(p) {
			if ended, known := firsts[c.mark]; known && !c.again {
				op.Return = ended
			}
			key := [2]int{0, c.thing}
			if c.kind == claim || c.kind == release {
				key[0] = 1
			}
			registers[key] = append(registers[key], op)
		}
	}
	for key, ops := range registers {
		if !porcupine.CheckOperations(register, ops) {
			w.fail("not linearizable: %s %d", [...]string{"the tuple of document", "the alias"}[key[0]], key[1])
			for _, op := range ops {
				c := op.Input.(*call)
				w.fail("  from %d to %d: %s, read %t", c.began, op.Return, c, c.there)
			}
		}
	}
}

// isRepetition reports whether a call was answered as the repetition of a write that had
// been made before.
func (c *call) isRepetition(p *past) bool {
	return c.again && c.outcome == made && c.revision <= p.at[c.before]
}

// operation returns a call as an operation on its register. ok is false if it tells
// nothing of the register.
func operation(c *call) (op porcupine.Operation, ok bool) {
	op = porcupine.Operation{Input: c, Call: c.began, Return: c.ended}
	switch {
	case c.outcome == failed, c.kind.isRead() && c.kind != full, c.kind == putSecret, c.kind == readSecret:
		return op, false
	case c.outcome == refused && errors.Is(c.err, ostiary.ErrPrecondition):
		return op, false
	case c.outcome == open && c.kind == full:
		return op, false
	case c.outcome == open:
		op.Return = math.MaxInt64 // it may take effect at any time, which includes never
	}
	return op, true
}

// register is the model of a tuple or an alias.
var register = porcupine.Model{
	Init: func() any { return false },
	Step: func(state, input, _ any) (bool, any) {
		set, c := state.(bool), input.(*call)
		if c.kind == full {
			return c.there == set, set
		}
		sets := c.kind == add || c.kind == claim
		switch {
		case c.outcome == refused:
			return set == sets, set
		case c.outcome == open:
			return true, sets // one without effect comes last
		}
		return set != sets, sets
	},
}
