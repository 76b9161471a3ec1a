//go:build unix

// Command mutants changes the code in small ways, one change at a time, and runs
// the tests on each changed program. A change is a mutant. It is killed if a test
// fails, and survives if all pass. A survivor is either a gap in the tests or
// changes nothing that can be observed; such equivalent mutants are listed with
// the reason in equivalent.txt.
//
// The changes are: conditions are negated; comparisons move by one; "and" and
// "or", + and -, true and false are swapped; integers grow by one; statements,
// assignments, fields of struct literals and early exits are dropped; returned
// errors become nil.
//
// Usage:
//
//	go run ./internal/workshop/mutants [flags] [packages]
//
// Without packages, it changes those that differ from a base revision of git.
// The exit code is 1 if, in one package, fewer than the expected share of the
// mutants are killed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

// options are the command's flags.
type options struct {
	sample  int
	seed    uint64
	base    string
	only    *regexp.Regexp
	list    bool
	own     bool
	run     *regexp.Regexp
	verbose bool
	jobs    int
	timeout time.Duration
	min     float64
}

func flags() (options, []string, error) {
	var o options
	only, tests := "", ""
	flag.IntVar(&o.sample, "n", 60, "mutants to try in each package, chosen at random; 0 tries all")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the choice")
	flag.StringVar(&o.base, "base", "main", "revision of git; without packages, the packages that differ from it are changed")
	flag.StringVar(&only, "only", "", "regular expression of the mutants to try, for example the name of a function")
	flag.BoolVar(&o.list, "list", false, "print the mutants instead of trying them")
	flag.BoolVar(&o.own, "own", false, "run only the tests of the package itself")
	flag.StringVar(&tests, "run", "", "regular expression of the tests to run, for example those that take little time")
	flag.BoolVar(&o.verbose, "v", false, "print the killed mutants too, with the test that failed")
	flag.IntVar(&o.jobs, "jobs", 2, "runs of tests at the same time")
	flag.DurationVar(&o.timeout, "timeout", 2*time.Minute, "time for one test without a mutant")
	flag.Float64Var(&o.min, "min", 92, "expected percentage of killed mutants in each package")
	flag.Parse()
	var err, testsErr error
	o.only, err = regexp.Compile(only)
	o.run, testsErr = regexp.Compile(tests)
	return o, flag.Args(), errors.Join(err, testsErr)
}

func main() {
	o, patterns, err := flags()
	if err == nil {
		err = run(o, patterns)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(o options, patterns []string) error {
	root, err := output(".", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	packages, err := load(root, o.base, patterns)
	if err != nil {
		return err
	}
	known, err := readEquivalents(equivalents)
	if err != nil {
		return err
	}
	var rows []row
	for _, p := range packages {
		all, err := find(p.dir, p.files)
		if err != nil {
			return err
		}
		if o.list {
			printAll(p, all)
			continue
		}
		r, err := try(o, root, p, all, known, os.Stdout)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return report(rows, o.min, os.Stdout)
}

func printAll(p pkg, all []Mutant) {
	for _, m := range all {
		fmt.Printf("%s %s\n", p.room, m.ID)
	}
}
