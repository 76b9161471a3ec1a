// Package openfga plays OpenFGA's own suites on the library. See README.md.
package openfga

import (
	"testing"

	"github.com/openfga/openfga/tests/check"
	"github.com/openfga/openfga/tests/listobjects"
	"github.com/openfga/openfga/tests/listusers"

	"github.com/ostiary/ostiary/conformance/openfga/client"
)

// library starts a client for one suite.
func library(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(t.Context())
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
func TestCheckWorlds(t *testing.T) { check.RunAllTests(t, library(t)) }

// TestCheckMatrix plays the matrix of rewrites, each also through both lists.
func TestCheckMatrix(t *testing.T) { check.RunMatrixTests(t, "memory", "ostiary", library(t)) }

// TestListObjectsWorlds plays the YAML worlds' lists of objects.
func TestListObjectsWorlds(t *testing.T) { listobjects.RunAllTests(t, library(t)) }

// TestListObjectsMatrix plays the matrix of lists of objects.
func TestListObjectsMatrix(t *testing.T) {
	listobjects.RunMatrixTests(t, "memory", "ostiary", library(t))
}

// TestListUsersWorlds plays the YAML worlds' lists of users.
func TestListUsersWorlds(t *testing.T) { listusers.RunAllTests(t, library(t)) }
