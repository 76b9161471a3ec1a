package mysql_test

import (
	"io"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestUndone answers each statement with error 1213, as Galera does after a certification
// that failed.
func TestUndone(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	sharedlogtest.SQL(mysql.Open).Undone(t, server.Database(), refuse)
}

// TestUndoneOpen does the same while a log is opened and its tables are made.
func TestUndoneOpen(t *testing.T) {
	t.Parallel()
	server := databases.MariaDB(t)
	sharedlogtest.SQL(mysql.Open).UndoneOpen(t, server.Database, refuse, "1213", 4)
}

// The numbers of the protocol of MySQL.
const (
	commandQuery = 0x03
	errorPacket  = 0xff
	deadlock     = 1213
)

// refuse implements sharedlogtest.Refuse. A packet has 3 bytes of length, a number that
// begins with 0 for each command, and its content.
func refuse(client io.Reader, server io.Writer, answer func([]byte) error, statement func(string) bool) error {
	head := make([]byte, 4)
	for {
		if _, err := io.ReadFull(client, head); err != nil {
			return err
		}
		body := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
		if _, err := io.ReadFull(client, body); err != nil {
			return err
		}
		if head[3] == 0 && len(body) > 0 && body[0] == commandQuery && statement(string(body[1:])) {
			text := append([]byte{errorPacket, deadlock & 0xff, deadlock >> 8}, "#40001Deadlock found when trying to get lock"...)
			if err := answer(append([]byte{byte(len(text)), 0, 0, 1}, text...)); err != nil {
				return err
			}
			continue
		}
		if _, err := server.Write(append(head[:4:4], body...)); err != nil {
			return err
		}
	}
}
