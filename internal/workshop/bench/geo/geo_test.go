package geo_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// parameters is the study's own expression for the folders of experiments.
var parameters = regexp.MustCompile(`^(?P<db>[a-z]+)-(?P<oss>[0-9]+)-(?P<delay>[0-9]+)-(?P<zones>[Z0-9]{6})-(?P<high>[TF]).*`)

func TestCells(t *testing.T) {
	for name, cells := range map[string][]geo.Cell{"full": geo.Full(), "short": geo.Short()} {
		seen := map[string]bool{}
		for _, c := range cells {
			if seen[c.File()] {
				t.Errorf("%s: two cells have the record %s", name, c.File())
			}
			seen[c.File()] = true
			if !parameters.MatchString(c.Name()) {
				t.Errorf("%s: the study does not find the parameters in %q", name, c.Name())
			}
		}
	}
	full := map[string]bool{}
	for _, c := range geo.Full() {
		full[c.File()] = true
	}
	for _, want := range []string{"ostiary-mariadb-45-0-Z1Z1Z1-T", "ostiary-postgresql-9-150-Z1Z1Z1-T", "ostiary-galera-9-10-Z1Z2Z3-F", "keystone-galera-9-10-Z1Z1Z1-F", "keystone-mariadb-9-150-Z1Z1Z1-F", "ostiary-local-mariadb-3-150-Z1Z1Z1-F"} {
		if !full[want+".json.gz"] {
			t.Errorf("the study has no cell %s", want)
		}
	}
	for _, c := range geo.Only(geo.Full(), []string{"keystone-galera-9", "ostiary-local"}) {
		if !strings.HasPrefix(c.File(), "keystone-galera-9-") && !c.Local {
			t.Errorf("unwanted cell %s", c)
		}
	}
}

// workFolder returns a folder that the users of the database servers can enter: as root,
// the servers run as others.
func workFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Chmod(filepath.Dir(folder), 0o711); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestPrivateWork plays as root in a folder that the users of the database servers cannot
// enter.
func TestPrivateWork(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the database servers run as another user only for root")
	}
	if err := servers.FindAll("mariadbd", "mariadb-install-db"); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := geo.Run(t.Context(), geo.Options{Cells: geo.Only(geo.Short(), []string{"ostiary-mariadb-3-0"}), Records: t.TempDir(), Work: folder, Program: "/bin/false", Proxies: true})
	if err == nil || !strings.Contains(err.Error(), "the rights are 0700, but as root the database servers run as users of their own") {
		t.Errorf("error %v", err)
	}
}

// TestFailed plays a cell that cannot start: its record has the reason, and a second run
// does not play it again. Records of another commit are refused.
func TestFailed(t *testing.T) {
	folder := workFolder(t)
	program := filepath.Join(folder, "program")
	// It makes the keys, and fails to serve.
	if err := os.WriteFile(program, []byte("#!/bin/sh\n[ \"$1\" = serve ] && echo broken && exit 3\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := geo.Options{Cells: geo.Only(geo.Short(), []string{"ostiary-mariadb-3-0"}), Records: filepath.Join(folder, "records"), Work: folder, Program: program, Proxies: true}
	var told []string
	o.Tell = func(line string) { told = append(told, line) }
	left, err := geo.Run(t.Context(), o)
	if err != nil || left != 0 {
		t.Fatal(left, err)
	}
	if len(told) != 1 {
		t.Fatalf("told %q", told)
	}
	if strings.Contains(told[0], "left out") {
		t.Skip(told[0])
	}
	if !strings.Contains(told[0], "failed") || !strings.Contains(told[0], "broken") {
		t.Errorf("told %q, expected the reason", told[0])
	}
	all, err := geo.Load(o.Records)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	r := all[0]
	if r.Mark != geo.Failed || !strings.Contains(r.Failure, "broken") || len(r.Scenarios) != 7 || r.Scenarios[3].Lambda() != 1 {
		t.Errorf("the record has mark %s, failure %q, %d scenarios", r.Mark, r.Failure, len(r.Scenarios))
	}
	if left, err = geo.Run(t.Context(), o); err != nil || left != 0 || len(told) != 1 {
		t.Errorf("the cell was played again: %q, %v", told, err)
	}
	if rest, err := filepath.Glob(filepath.Join(folder, "ostiary-geo-*")); err != nil || len(rest) > 0 {
		t.Errorf("%q is left", rest)
	}

	other := all[0]
	other.Commit = "another"
	if err := geo.Save(o.Records, &other); err != nil {
		t.Fatal(err)
	}
	if _, err = geo.Run(t.Context(), o); !errors.Is(err, geo.ErrMixed) {
		t.Errorf("a record of another commit: %v", err)
	}
	o.Mix = true
	if _, err = geo.Run(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// TestInterrupted ends a run in the middle of a cell: it has no record.
func TestInterrupted(t *testing.T) {
	folder := workFolder(t)
	program := filepath.Join(folder, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n[ \"$1\" = serve ] && exec sleep 1000\nexit 0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := geo.Options{Cells: geo.Only(geo.Short(), []string{"ostiary-mariadb-3-0"}), Records: filepath.Join(folder, "records"), Work: folder, Program: program, Proxies: true}
	var told string
	o.Tell = func(line string) { told = line }
	o.Progress = func(title string, _, _ int) {
		if strings.Contains(title, "starting") {
			stop()
		}
	}
	left, err := geo.Run(ctx, o)
	if strings.Contains(told, "left out") {
		t.Skip(told)
	}
	if !errors.Is(err, context.Canceled) || left != 1 {
		t.Errorf("got %v, %d left", err, left)
	}
	if all, err := geo.Load(o.Records); err != nil || len(all) != 0 {
		t.Errorf("records %v, %v", all, err)
	}
}

// TestLoad reads damaged records.
func TestLoad(t *testing.T) {
	cell := geo.Short()[0]
	good := func(t *testing.T) (string, string) {
		folder := t.TempDir()
		if err := geo.Save(folder, &geo.Record{Cell: cell, Mark: geo.Measured}); err != nil {
			t.Fatal(err)
		}
		return folder, filepath.Join(folder, cell.File())
	}
	for name, damage := range map[string]func(file string) error{
		"cut":   func(file string) error { return os.Truncate(file, 100) },
		"empty": func(file string) error { return os.Truncate(file, 0) },
		"wrong name": func(file string) error {
			return os.Rename(file, filepath.Join(filepath.Dir(file), "keystone-mariadb-9-0-Z1Z1Z1-F.json.gz"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder, file := good(t)
			if all, err := geo.Load(folder); err != nil || len(all) != 1 || all[0].Cell != cell {
				t.Fatal(all, err)
			}
			if err := damage(file); err != nil {
				t.Fatal(err)
			}
			if _, err := geo.Load(folder); !errors.Is(err, geo.ErrRecord) || !strings.Contains(err.Error(), folder) {
				t.Errorf("got %v", err)
			}
		})
	}
}
