package postgres_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/postgres"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestUndone answers each round trip with error 40001, as a server does after a
// serialization failure.
func TestUndone(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	sharedlogtest.SQL(postgres.Open).Undone(t, server.Database(), refuse)
}

// TestUndoneOpen does the same while a log is opened and its tables are made.
func TestUndoneOpen(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	sharedlogtest.SQL(postgres.Open).UndoneOpen(t, server.Database, refuse, "40001", 4)
}

// refuse implements sharedlogtest.Refuse. After the first message, which has no type, a
// message has a type, 4 bytes of length that count themselves, and its content. A round
// trip is one Query, or several messages that end with Sync.
func refuse(client io.Reader, server io.Writer, answer func([]byte) error, statement func(string) bool) error {
	message := func(head int) ([]byte, error) {
		b := make([]byte, head)
		if _, err := io.ReadFull(client, b); err != nil {
			return nil, err
		}
		b = append(b, make([]byte, int(binary.BigEndian.Uint32(b[head-4:]))-4)...)
		_, err := io.ReadFull(client, b[head:])
		return b, err
	}
	first, err := message(4)
	if err != nil {
		return err
	}
	if _, err := server.Write(first); err != nil {
		return err
	}
	var trip []byte
	for {
		b, err := message(5)
		if err != nil {
			return err
		}
		trip = append(trip, b...)
		if b[0] != 'Q' && b[0] != 'S' && b[0] != 'H' && b[0] != 'p' && b[0] != 'X' {
			continue
		}
		if (b[0] == 'Q' || b[0] == 'S') && statement(string(bytes.ReplaceAll(trip, []byte{0}, []byte{' '}))) {
			text := "SERROR\x00C40001\x00Mcould not serialize access\x00\x00"
			failure := append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(text)+4)), text...)
			if err := answer(append(failure, 'Z', 0, 0, 0, 5, 'I')); err != nil {
				return err
			}
		} else if _, err := server.Write(trip); err != nil {
			return err
		}
		trip = nil
	}
}
