//go:build unix

package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
)

// equivalents is the list of mutants that no test can kill. Each paragraph is one
// mutant: the room and the mutant's identifier, then indented lines with the
// reason.
//
//go:embed equivalent.txt
var equivalents string

// readEquivalents returns the reasons of a list, by "room identifier". It fails if
// a mutant has no reason or is listed twice.
func readEquivalents(text string) (map[string]string, error) {
	all := map[string]string{}
	mutant := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch reason, indented := strings.CutPrefix(line, "\t"); {
		case line == "" || line[0] == '#':
		case indented && mutant != "":
			all[mutant] = strings.TrimSpace(all[mutant] + " " + reason)
		case indented:
			return nil, fmt.Errorf("reason %q without a mutant", reason)
		default:
			if _, twice := all[line]; twice {
				return nil, fmt.Errorf("mutant %q is listed twice", line)
			}
			mutant = line
			all[mutant] = ""
		}
	}
	for mutant, reason := range all {
		if reason == "" {
			return nil, fmt.Errorf("mutant %q has no reason", mutant)
		}
	}
	return all, nil
}

// report prints a table of the packages. It fails if fewer than min percent of
// the mutants of one were killed.
func report(rows []row, min float64, print io.Writer) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(print, "\n| package | mutants | tried | killed | survived | equivalent | do not compile | timed out | killed % |")
	fmt.Fprintln(print, "|---|---|---|---|---|---|---|---|---|")
	var low []string
	for _, r := range rows {
		fmt.Fprintf(print, "| %s | %d | %d | %d | %d | %d | %d | %d | %.0f |\n",
			r.room, r.all, r.killed+r.survived, r.killed, r.survived, r.equivalent, r.uncompilable, r.timedOut, r.share())
		if r.share() < min {
			low = append(low, r.room)
		}
	}
	if len(low) > 0 {
		return fmt.Errorf("fewer than %g %% of the mutants were killed in %s", min, strings.Join(low, ", "))
	}
	return nil
}
