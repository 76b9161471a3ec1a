package serve

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/lease"
)

// nodesFlags are the settings of a node of a cluster.
type nodesFlags struct {
	quorum               quorumFlags
	log, next            string
	listen, address      string
	certificate, key, ca string
	settings             cli.SettingsFlags
	stale                bool
	reluctance           time.Duration
	zone                 string
	preferred            bool
	groupsAhead          int
}

// listenDefault is the default of --nodes-listen.
const listenDefault = "127.0.0.1:8082"

func (f *nodesFlags) add(s *pflag.FlagSet) {
	cli.AddLog(s, &f.log)
	f.quorum.add(s)
	s.StringVar(&f.listen, "nodes-listen", listenDefault, "of a node: address on which other nodes connect")
	s.StringVar(&f.address, "nodes-address", "", "of a node: HOST:PORT where other nodes reach this one; HOST must be in its certificate; default: --nodes-listen")
	s.StringVar(&f.certificate, "nodes-certificate", "", "with --log: PEM file with the certificate of this node and its chain; ostiary node certificate makes one")
	s.StringVar(&f.key, "nodes-key", "", "with --log: PEM file with the key of --nodes-certificate")
	s.StringVar(&f.ca, "nodes-ca", "", "with --log: PEM file with the authorities whose certificates other nodes have")
	s.BoolVar(&f.stale, "stale-reads", false, "of a node: answer reads from the copy, which may be old, while the node reaches neither the node that writes nor the log")
	s.StringVar(&f.zone, "zone", "", "of a node: name of the place of this node, which \"ostiary node list\" shows")
	cli.Topic(s, "Nodes")
	s.StringVar(&f.next, "next-log", "", "URL of the log on which the server goes on when \"ostiary migrate --live\" has moved its stores there, from --log, from the cluster of --cluster, or from the data folder alone; prefer the variable OSTIARY_NEXT_LOG")
	f.quorum.addRare(s)
	f.settings.Add(s, "of a node: ", "default: that of the cluster, see \"ostiary node settings\"")
	s.DurationVar(&f.reluctance, "holder-reluctance", 0, "of a node: how much longer this node waits before it takes over, so that nodes at a better place come first")
	s.BoolVar(&f.preferred, "prefer-holder", false, "of a node: another node hands the role of the node that writes to this one, as soon as this one has caught up")
	s.IntVar(&f.groupsAhead, "groups-ahead", 16, "of a node: how many groups of writes of one store may be in the log, or on their way to it, before the first of them is acknowledged by the nodes that answer reads; 1 appends one after the other")
	cli.Rare(s, "Nodes")
}

// zoneBytesMax bounds the length of --zone, in bytes.
const zoneBytesMax = 128

// unused returns an error if the settings of a node are given without a log: the server
// would serve stores of its own.
func (f *nodesFlags) unused() error {
	if f.on() || f.listen == listenDefault && f.address == "" && f.certificate == "" && f.key == "" && f.ca == "" {
		return nil
	}
	return fmt.Errorf("%w: --nodes-listen, --nodes-address, --nodes-certificate, --nodes-key and --nodes-ca need --log (or OSTIARY_LOG), the URL of the log that the nodes share, or --cluster", cli.ErrUsage)
}

// on reports whether the server is a node of a cluster.
func (f *nodesFlags) on() bool { return f.log != "" || f.quorum.on() || f.own() }

// own reports whether the server keeps a log in its data folder, as its only node, until that
// is moved to the next log.
func (f *nodesFlags) own() bool { return f.log == "" && !f.quorum.on() && f.next != "" }

// files checks the settings, and reads the certificates. Without any, the nodes of a
// cluster without a database make them.
func (f *nodesFlags) files() (*certificate.Files, error) {
	var errs []error
	usage := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{cli.ErrUsage}, args...)...))
	}
	own := f.quorum.on() && f.certificate == "" && f.key == "" && f.ca == ""
	if f.quorum.on() && f.log != "" {
		usage("--log and --cluster: expected one of them, because with --cluster the nodes keep the log themselves")
	}
	for _, file := range [...]struct{ flag, value string }{{"nodes-certificate", f.certificate}, {"nodes-key", f.key}, {"nodes-ca", f.ca}} {
		if file.value == "" && !own {
			usage("--log needs --%s: \"ostiary node certificate\" makes the files", file.flag)
		}
	}
	if f.key != "" {
		if err := cli.CheckKeysMode(f.key); err != nil {
			errs = append(errs, fmt.Errorf("--nodes-key: %w", err))
		}
	}
	if len(f.zone) > zoneBytesMax || !utf8.ValidString(f.zone) || strings.ContainsFunc(f.zone, unicode.IsControl) {
		usage("invalid --zone %q: expected at most %d bytes of printable text", f.zone, zoneBytesMax)
	}
	if _, err := f.settings.Settings(); err != nil {
		errs = append(errs, err)
	}
	if host, _, err := net.SplitHostPort(f.listen); err != nil {
		usage("invalid --nodes-listen %q: expected HOST:PORT, for example 0.0.0.0:8082", f.listen)
	} else if ip := net.ParseIP(host); f.address == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
		usage("--nodes-listen %s needs --nodes-address, because other nodes do not reach this one there", f.listen)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if own {
		return nil, nil
	}
	if err := cli.CheckKeysMode(f.key); err != nil {
		return nil, err
	}
	return certificate.Open(f.certificate, f.key, f.ca, nil)
}

// options returns the settings of the node, without the log and the link.
func (f *nodesFlags) options() lease.Options {
	settings, _ := f.settings.Settings() // files has checked it
	return lease.Options{Settings: settings, StaleReads: f.stale, Reluctance: f.reluctance, Preferred: f.preferred}
}
