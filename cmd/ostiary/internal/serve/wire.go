package serve

import (
	"github.com/spf13/cobra"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/server"
)

// wireFlags are the settings of ostiary serve that bound what clients can hold:
// connections, and bytes that are received or not yet sent.
type wireFlags struct {
	connections, connectionsPerAddress, streamsPerConnection int
	bodyBytesTotal, bodyBytesPerConnection                   int64
	unsentBytesTotal, unsentBytesPerConnection               int64
}

func (f *wireFlags) add(cmd *cobra.Command) {
	s := cmd.Flags()
	s.IntVar(&f.streamsPerConnection, "streams-per-connection", server.StreamsPerConnectionDefault, "maximum number of concurrent requests and streams on one HTTP/2 connection")
	s.IntVar(&f.connections, "connections-max", 0, "maximum number of open connections; 0 means 16384, or fewer if the process may not open so many files")
	s.IntVar(&f.connectionsPerAddress, "connections-per-address", 0, "maximum number of open connections from one address; 0 means three quarters of --connections-max")
	cli.BytesVar(s, &f.bodyBytesTotal, "body-bytes-total", server.BodyBytesTotalDefault, "maximum total size of the request bodies in flight that are larger than 16 KiB; a body counts before it is read")
	cli.BytesVar(s, &f.bodyBytesPerConnection, "body-bytes-per-connection", server.BodyBytesPerConnectionDefault, "maximum total size, on one connection, of the request bodies in flight that are larger than 16 KiB; at least twice --body-bytes")
	cli.BytesVar(s, &f.unsentBytesTotal, "unsent-bytes-total", server.UnsentBytesTotalDefault, "maximum total size of responses that wait for slow clients")
	cli.BytesVar(s, &f.unsentBytesPerConnection, "unsent-bytes-per-connection", server.UnsentBytesPerConnectionDefault, "maximum total size, on one connection, of responses that wait for a slow client")
}

func (f *wireFlags) set(o *server.Options) {
	o.ConnectionsMax, o.ConnectionsPerAddress, o.StreamsPerConnection = f.connections, f.connectionsPerAddress, f.streamsPerConnection
	o.BodyBytesTotal, o.BodyBytesPerConnection = f.bodyBytesTotal, f.bodyBytesPerConnection
	o.UnsentBytesTotal, o.UnsentBytesPerConnection = f.unsentBytesTotal, f.unsentBytesPerConnection
}
