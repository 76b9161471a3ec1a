package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/protocols"
	"github.com/ostiary/ostiary/storage/pebble"
)

// login logs in to the Identity API by password, with the scope of the project
// admin if the user is admin, prints the status, and sets TOKEN to the token:
// login ADDRESS USER PASSWORD.
func login(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: login ADDRESS USER PASSWORD")
	}
	scope := ""
	if args[1] == "admin" {
		scope = `,"scope":{"project":{"name":"admin","domain":{"id":"default"}}}`
	}
	body := fmt.Sprintf(`{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":%q,"domain":{"id":"default"},"password":%q}}}%s}}`, args[1], args[2], scope)
	req, err := http.NewRequest(http.MethodPost, "http://"+args[0]+"/v3/auth/tokens", strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	fmt.Fprintln(ts.Stdout(), resp.StatusCode)
	ts.Setenv("TOKEN", resp.Header.Get("X-Subject-Token"))
}

// pick sets a variable to the first group of a regular expression in the output of
// the command before: pick VARIABLE EXPRESSION.
func pick(ts *testscript.TestScript, neg bool, args []string) {
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if neg || len(found) != 2 {
		ts.Fatalf("no %s in the output", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// interruptImport leaves a data folder as an import does that is killed:
// interrupt-import FOLDER.
func interruptImport(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: interrupt-import FOLDER")
	}
	driver, err := pebble.Open(ts.MkAbs(args[0]), pebble.Options{})
	ts.Check(err)
	e, err := ostiary.Open(context.Background(), ostiary.Options{Driver: driver})
	ts.Check(err)
	store, err := protocols.CreateKeystoneStore(context.Background(), e)
	ts.Check(err)
	ts.Check(protocols.WriteKeystoneImport(context.Background(), store, false))
	ts.Check(e.Close())
	ts.Check(driver.Close())
}
