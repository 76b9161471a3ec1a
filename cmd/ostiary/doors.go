package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/server"
)

// opened is what a door's New returns.
type opened struct {
	door *door.Door
	err  error
}

func open(d *door.Door, err error) opened { return opened{d, err} }

// doorFlags are the settings of single doors.
type doorFlags struct {
	openfga openfga.Options
	permify permify.Options
	// authzenStore and authzenURL are authzen.Options.
	authzenStore, authzenURL string
}

func (f *doorFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&f.openfga.InlineExpressions, "openfga-inline-expressions", false, "admit the condition \"$expression\", as OpenFGA's experiment does")
	s.IntVar(&f.openfga.WriteTuples, "openfga-write-tuples", 100, "most tuples of one OpenFGA write, removed ones included")
	s.IntVar(&f.openfga.BatchChecks, "openfga-batch-checks", 50, "most questions of one OpenFGA batch check")
	s.IntVar(&f.openfga.ListResults, "openfga-list-results", 1000, "most results of an OpenFGA list, streams aside")
	s.StringVar(&f.authzenStore, "authzen-store", "", "the store that AuthZEN paths without one mean, by id or alias")
	s.StringVar(&f.authzenURL, "authzen-url", "", "what AuthZEN clients know the server by, for the metadata: https://pdp.example.com")
	s.BoolVar(&f.permify.ExactSnapTokens, "permify-exact-snap-tokens", false, "answer as of the very revision that a Permify snap token names, instead of at least as fresh")
	s.DurationVar(&f.openfga.ListTime, "openfga-list-time", 3*time.Second, "how long an OpenFGA list may take")
}

// allDoors lists the doors of this program, a line each.
func allDoors(e *ostiary.Engine, f *doorFlags) ([]*door.Door, error) {
	var out []*door.Door
	var errs []error
	for _, o := range []opened{
		open(openfga.New(e, f.openfga)),
		open(native.New(e, native.Options{Dialects: dialects()})),
		open(authzen.New(e, authzen.Options{Store: f.authzenStore, URL: f.authzenURL})),
		open(permify.New(e, f.permify)),
	} {
		out, errs = append(out, o.door), append(errs, o.err)
	}
	return out, errors.Join(errs...)
}

// pickDoors leaves the doors that --doors names; no names are all of them.
func pickDoors(all []*door.Door, names []string) (picked []*door.Door, err error) {
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		d, err := findDoor(all, name)
		if err != nil {
			return nil, err
		}
		picked = append(picked, d)
	}
	return picked, nil
}

func findDoor(all []*door.Door, name string) (*door.Door, error) {
	var names []string
	for _, d := range all {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	return nil, fmt.Errorf("%w: there is no door %q; there are: %s", errUsage, name, strings.Join(names, ", "))
}

// dedicatedDoors parses the values of --door, NAME=http://ADDRESS and NAME=grpc://ADDRESS.
func dedicatedDoors(all []*door.Door, flags []string) (dedicated []server.DedicatedDoor, err error) {
	for _, f := range flags {
		name, where, _ := strings.Cut(f, "=")
		d, err := findDoor(all, name)
		if err != nil {
			return nil, err
		}
		i := 0
		for i < len(dedicated) && dedicated[i].Door != d {
			i++
		}
		if i == len(dedicated) {
			dedicated = append(dedicated, server.DedicatedDoor{Door: d})
		}
		at := &dedicated[i].HTTP
		address, ok := strings.CutPrefix(where, "http://")
		if !ok {
			address, ok = strings.CutPrefix(where, "grpc://")
			at = &dedicated[i].GRPC
		}
		if !ok || address == "" || *at != "" {
			return nil, fmt.Errorf("%w: --door %q is not NAME=http://ADDRESS or NAME=grpc://ADDRESS, once each", errUsage, f)
		}
		*at = address
	}
	return dedicated, nil
}
