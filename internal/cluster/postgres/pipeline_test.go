package postgres_test

import (
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestAhead cuts and silences the connection while appends are on their way.
func TestAhead(t *testing.T) {
	t.Parallel()
	sharedlogtest.SQL(postgres.Open).Ahead(t, databases.PostgreSQL(t).Database())
}

// TestCuts cuts the connection after each part of what appends send.
func TestCuts(t *testing.T) {
	t.Parallel()
	sharedlogtest.SQL(postgres.Open).Cuts(t, databases.PostgreSQL(t).Database(), true)
}
