package sharedlog_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

func TestShownAddress(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://anne@db/name":                            "postgres://anne@db/name",
		"postgres://anne:hidden@db/name":                     "postgres://anne:xxxxx@db/name",
		"postgres://anne:hid/d@en@db:1,other:2/name":         "postgres://anne:xxxxx@db:1,other:2/name",
		"postgres://db/name?user=anne&password=hidden":       "postgres://db/name?user=anne&password=xxxxx",
		"postgres://db/name?sslpassword=hidden&sslmode=x":    "postgres://db/name?sslpassword=xxxxx&sslmode=x",
		"postgres://db/name?pass%77ord=hidden":               "postgres://db/name?pass%77ord=xxxxx",
		"postgres://db/name?PASSWORD=hidden&sslkey=file.key": "postgres://db/name?PASSWORD=xxxxx&sslkey=file.key",
		"mysql://anne:hi?dden@db/name":                       "mysql://anne:hi?xxxxx",
		"mysql://anne:hidden@one:3306,two:3306/name?tls=x":   "mysql://anne:xxxxx@one:3306,two:3306/name?tls=x",
		"mysql://anne:%zzhidden@db/name":                     "mysql://anne:xxxxx@db/name",
	} {
		if got := sharedlog.ShownAddress(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}

// No error of a driver has a password of its URL.
func TestHideSecrets(t *testing.T) {
	for _, address := range []string{
		"postgres://anne@127.0.0.1:1/name?password=hidden&sslmode=wrong",
		"postgres://anne@127.0.0.1:1/name?password=hid%64en&sslmode=wrong",
		"postgres://anne@127.0.0.1:1/name?sslpassword=hidden&sslkey=none&sslcert=none",
		"postgres://anne:hidden@127.0.0.1:1/name?sslmode=wrong",
		"postgres://anne@127.0.0.1:1/name?password=hidden",
		"postgres://anne@127.0.0.1:1/name?password=hidden&target_session_attrs=wrong",
		"postgres://anne:hidden@127.0.0.1:1/name?replica=bob:hidden@x",
		"postgres://anne:hidden@127.0.0.1:port/name",
		"mysql://anne:hidden@127.0.0.1:1/name?password=hidden",
		"mysql://anne:hidden@127.0.0.1:1/name?tls=wrong",
		"mysql://anne:hidden@127.0.0.1:1/name?replica=bob:hidden@x",
		"mysql://anne:%zzhidden@127.0.0.1:1/name",
		"mysql://anne:hidden@127.0.0.1:1/name",
	} {
		open := func() error {
			if strings.HasPrefix(address, "mysql") {
				_, err := mysql.Open(t.Context(), address)
				return err
			}
			_, err := postgres.Open(t.Context(), address)
			return err
		}
		if err := open(); err == nil || strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "hid%64en") {
			t.Errorf("%s: %v", address, err)
		}
	}
	err := sharedlog.HideSecrets(io.EOF, "postgres://anne:hidden@db/name")
	if err != io.EOF {
		t.Errorf("got %v", err)
	}
	if err = sharedlog.HideSecrets(errors.Join(io.EOF, errors.New("postgres://anne:hidden@db")), "postgres://anne:hidden@db/name"); !errors.Is(err, io.EOF) || err.Error() != "EOF\npostgres://anne:xxxxx@db" {
		t.Errorf("got %v", err)
	}
}
