//go:build linux

package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// newDatabase makes a database at a server and returns the URL of a log in it.
func newDatabase(ctx context.Context, server string) (string, error) {
	at, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("asone_%d_%d", os.Getpid(), time.Now().UnixNano())
	var db *sql.DB
	switch at.Scheme {
	case "postgres":
		db, err = sql.Open("pgx", server)
	case "mysql":
		db, err = sql.Open("mysql", fmt.Sprintf("%s@tcp(%s)/", at.User, at.Host))
	default:
		return "", fmt.Errorf("ASONE_SERVER has the scheme %q, expected postgres or mysql", at.Scheme)
	}
	if err != nil {
		return "", err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "create database "+name); err != nil {
		return "", err
	}
	at.Path = "/" + name
	return at.String(), nil
}
