// Package openfga runs OpenFGA's own suites on the library. See README.md.
package openfga

import (
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"github.com/openfga/openfga/tests/check"
	"github.com/openfga/openfga/tests/listobjects"
	"github.com/openfga/openfga/tests/listusers"

	"github.com/ostiary/ostiary/conformance/openfga/client"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/pebble"
)

// library starts a client for one suite.
func library(t *testing.T, driver storage.Driver) *client.Client {
	t.Helper()
	c, err := client.New(t.Context(), driver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestCheckWorlds plays the YAML worlds' checks, with stored and with
// contextual tuples.
func TestCheckWorlds(t *testing.T) { check.RunAllTests(t, library(t, nil)) }

// TestListObjectsWorlds plays the YAML worlds' lists of objects, whole and
// streamed.
func TestListObjectsWorlds(t *testing.T) { listobjects.RunAllTests(t, library(t, nil)) }

// TestListUsersWorlds plays the YAML worlds' lists of users.
func TestListUsersWorlds(t *testing.T) { listusers.RunAllTests(t, library(t, nil)) }

// TestCheckMatrix plays the matrix of rewrites, each through a check and both
// lists.
func TestCheckMatrix(t *testing.T) {
	check.RunMatrixTests(t, "memory", "stored", library(t, nil))
}

// TestListObjectsMatrix plays the matrix of lists of objects.
func TestListObjectsMatrix(t *testing.T) {
	listobjects.RunMatrixTests(t, "memory", "stored", library(t, nil))
}

// TestMatricesContextual plays both matrices without storing a tuple.
func TestMatricesContextual(t *testing.T) {
	c := &contextual{Client: library(t, nil), tuples: map[string][]*openfgav1.TupleKey{}}
	check.RunMatrixTests(t, "memory", "contextual", c)
	listobjects.RunMatrixTests(t, "memory", "contextual", c)
}

// TestMatricesPebble plays both matrices on a data folder.
func TestMatricesPebble(t *testing.T) {
	driver, err := pebble.Open(t.TempDir(), pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := driver.Close(); err != nil {
			t.Error(err)
		}
	})
	c := library(t, driver) // closed before its driver
	check.RunMatrixTests(t, "pebble", "stored", c)
	listobjects.RunMatrixTests(t, "pebble", "stored", c)
}
