//go:build unix

package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// To build a test program takes longer than most tests. So one program contains
// many mutants, and an environment variable chooses one, or none. A condition
// becomes
//
//	(mutantOn(7) != (n > limit))
//
// and a statement
//
//	if !mutantOn(8) { l.items = append(l.items, n) }

// The environment variables of a program with mutants.
const (
	// chosenVariable is the number of the mutant that runs; 0 is none.
	chosenVariable = "MUTANTS_CHOSEN"
	// reachedVariable is the path of a file. The program appends the number of each
	// mutant that it reaches, a line each.
	reachedVariable = "MUTANTS_REACHED"
)

// switchFile is the name of the file that is added to the package, and
// switchCode its text.
const (
	switchFile = "ostiary_mutants.go"
	switchCode = `package %s

import (
	mutantOS "os"
	mutantConv "strconv"
	mutantAtomic "sync/atomic"
)

var (
	mutantChosen, _ = mutantConv.Atoi(mutantOS.Getenv("` + chosenVariable + `"))
	mutantRecord    = mutantOS.Getenv("` + reachedVariable + `")
	mutantReached   [%d]mutantAtomic.Bool
)

func mutantOn(n int) bool {
	if mutantRecord != "" {
		mutantReach(n)
	}
	return mutantChosen == n
}

func mutantReach(n int) {
	if mutantReached[n].Swap(true) {
		return
	}
	f, err := mutantOS.OpenFile(mutantRecord, mutantOS.O_APPEND|mutantOS.O_CREATE|mutantOS.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	f.WriteString(mutantConv.Itoa(n) + "\n")
}
`
)

// edit inserts text before and after a part of a file.
type edit struct {
	from, to      int
	before, after string
}

// switchOf returns the edit that makes a program contain mutant m with number n
// and the original. It fails if there is none.
func switchOf(c *checker, m *Mutant, n int) (edit, error) {
	e := edit{from: m.from, to: m.to}
	var err error
	kind := ""
	switch m.form {
	case formNegation:
		e.before, e.after = fmt.Sprintf("(mutantOn(%d) != (", n), "))"
	case formDrop:
		e.before, e.after = fmt.Sprintf("if !mutantOn(%d) { ", n), " }"
	case formAssign:
		e.before, e.after = fmt.Sprintf("if mutantOn(%d) { %s } else { ", n, m.with), " }"
	case formBranch:
		e.before = fmt.Sprintf("if mutantOn(%d) { %s }; ", n, m.with)
	case formError:
		e = choice(e, n, "error", "nil")
	case formExpression:
		kind, err = c.typeName(span{m.File, m.from, m.to})
		e = choice(e, n, kind, m.with)
	case formField:
		kind, err = c.fieldType(m.File, m.key)
		e = choice(e, n, kind, "*new("+kind+")")
	default:
		err = fmt.Errorf("%s: expected a statement of a block or an expression", m.ID)
	}
	return e, err
}

// choice makes an expression of a type choose between its text and with.
func choice(e edit, n int, kind, with string) edit {
	e.before = fmt.Sprintf("func() %s { if mutantOn(%d) { return %s }; return ", kind, n, with)
	e.after = " }()"
	return e
}

// insert makes edits of a text. Parts of two edits are apart, or one contains the
// other. Of two equal parts, the first one is outside.
func insert(text string, edits []edit) string {
	type piece struct {
		at, order int
		text      string
	}
	// The outer parts come first.
	slices.SortStableFunc(edits, func(a, b edit) int {
		return cmp.Or(a.from-b.from, b.to-a.to)
	})
	var pieces []piece
	for i, e := range edits {
		pieces = append(pieces, piece{e.from, i, e.before}, piece{e.to, -1 - i, e.after})
	}
	// At one place, parts end before others begin, and the inner ones end first.
	slices.SortStableFunc(pieces, func(a, b piece) int {
		return cmp.Or(a.at-b.at, a.order-b.order)
	})
	var out strings.Builder
	at := 0
	for _, p := range pieces {
		out.WriteString(text[at:p.at])
		out.WriteString(p.text)
		at = p.at
	}
	out.WriteString(text[at:])
	return out.String()
}

// switched is a package whose code contains mutants.
type switched struct {
	// files are the changed files and the added one, by path from the root of the
	// repository.
	files map[string]string
	// number are the numbers of the mutants that the code contains.
	number map[*Mutant]int
}

// newSwitched returns the code of a package with those of some mutants that it can
// contain together. Two mutants that compile alone may not compile together, for
// example if one changes a constant and the other an expression that contains it.
func newSwitched(c *checker, room string, mutants []*Mutant) switched {
	s := switched{files: map[string]string{}, number: map[*Mutant]int{}}
	edits := map[string][]edit{}
	for i, m := range mutants {
		e, err := switchOf(c, m, i+1)
		if err != nil {
			continue
		}
		before := edits[m.File]
		edits[m.File] = append(slices.Clone(before), e)
		if c.compiles(c.edited(edits, len(mutants))) != nil {
			edits[m.File] = before
			continue
		}
		s.number[m] = i + 1
	}
	for name, text := range c.edited(edits, len(mutants)) {
		s.files[path.Join(room, name)] = text
	}
	return s
}

// edited returns the changed files and the added one, by name.
func (c *checker) edited(edits map[string][]edit, numberMax int) map[string]string {
	changed := map[string]string{switchFile: fmt.Sprintf(switchCode, c.pkg.Name(), numberMax+1)}
	for file, list := range edits {
		changed[file] = insert(c.texts[file], list)
	}
	return changed
}
