package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/server"
)

// ports are the ports of a server, which are open before its data folder is. So a
// server whose port is in use creates no folder.
type ports struct{ open []openPort }

type openPort struct {
	name string // as in [server.Address]
	net  net.Listener
}

// openPorts opens the ports of o. The caller closes those that no server takes.
func openPorts(o *server.Options, dedicated []dedicatedPort) (*ports, error) {
	p := &ports{}
	all := []dedicatedPort{{"", "http", o.HTTP}, {"", "grpc", o.GRPC}, {"", "metrics", o.Metrics}}
	all = append(all, dedicated...)
	for _, at := range all {
		if at.address == "" {
			continue
		}
		l, err := server.Listen(at.address)
		if err != nil {
			p.close()
			for _, other := range all {
				if other != at && other.address == at.address && errors.Is(err, syscall.EADDRINUSE) {
					return nil, cli.WithText(fmt.Sprintf("%s has the address of %s: expected another one", at.flag(), other.flag()), err)
				}
			}
			return nil, explainPort(at, err)
		}
		p.open = append(p.open, openPort{at.name(), l})
	}
	return p, nil
}

// take returns the port with a name. A later call for the same name fails.
func (p *ports) take(name, address string) (net.Listener, error) {
	for i := range p.open {
		if at := &p.open[i]; at.name == name && at.net != nil {
			l := at.net
			at.net = nil
			return l, nil
		}
	}
	return nil, fmt.Errorf("no port %s is open on %s", name, address)
}

// starting returns the HTTP ports that no server has taken, by their names.
func (p *ports) starting() map[string]*net.TCPListener {
	all := map[string]*net.TCPListener{}
	for _, at := range p.open {
		if l, ok := at.net.(*net.TCPListener); ok && (at.name == "metrics" || at.name == "http" || strings.HasSuffix(at.name, " http")) {
			all[at.name] = l
		}
	}
	return all
}

// close closes the ports that were not taken.
func (p *ports) close() {
	for _, at := range p.open {
		if at.net != nil {
			at.net.Close()
		}
	}
}

// explainPort returns the error for a port that cannot be opened.
func explainPort(at dedicatedPort, err error) error {
	text := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		text = "another process already listens on it: stop that process, or choose another address"
	case errors.Is(err, syscall.EACCES):
		text = "this user may not open the port: choose one above 1023"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		text = "this machine has no such address"
	default:
		return fmt.Errorf("%s: %w", at.flag(), err)
	}
	return cli.WithText(fmt.Sprintf("%s: %s", at.flag(), text), err)
}

// addressesOf returns the server's addresses by their names.
func addressesOf(s *server.Server) map[string]string {
	where := map[string]string{}
	for _, at := range s.Addresses() {
		where[at.Name] = at.Addr.String()
	}
	return where
}

// announce prints the server's addresses to stdout.
func (s *prepared) announce(running *server.Server, tls bool) error {
	if s.flags.opened != nil {
		return s.flags.opened(addressesOf(running)["http"])
	}
	var lines []string
	for _, at := range running.Addresses() {
		name := at.Name
		if tls && strings.HasSuffix(name, "http") {
			name += "s"
		}
		lines = append(lines, name+" "+at.Addr.String())
	}
	return s.Print(addressesOf(running), func(w io.Writer) { cli.Printf(w, "serving %s\n", strings.Join(lines, ", ")) })
}

// checkAddresses fails if the address of a listener is not HOST:PORT or off.
func (f *serveFlags) checkAddresses() error {
	for _, at := range [...]struct{ flag, address string }{{"http", f.http}, {"grpc", f.grpc}, {"metrics", f.metrics}} {
		if _, port, err := net.SplitHostPort(at.address); at.address != off && (err != nil || port == "") {
			return fmt.Errorf("%w: invalid --%s %q: expected HOST:PORT, for example 127.0.0.1:8080, or off", cli.ErrUsage, at.flag, at.address)
		}
	}
	if f.http == off && f.grpc == off && f.metrics == off && len(f.dedicated) == 0 {
		return fmt.Errorf("%w: nothing to serve: expected an address for --http or --grpc, or a --door", cli.ErrUsage)
	}
	return nil
}

func address(s string) string {
	if s == off {
		return ""
	}
	return s
}
