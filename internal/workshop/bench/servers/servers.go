// Package servers has what it takes to start other programs as servers on this machine:
// [FreePort] chooses a port, [Find] finds a program that is installed, and [As] runs a
// program as another user. It starts nothing itself.
package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// Ports are chosen from blocks of these. Systems take others, above them, for connections
// that programs open.
const (
	portFirst = 10_000
	portBlock = 50
	portsAll  = 440 * portBlock
)

// ports are the blocks of one process. A process takes a block by listening on the first
// of its ports, where no other process can listen then.
type ports struct {
	mu        sync.Mutex
	guards    []net.Listener
	next, end int // of the block that was taken last
}

var own ports

// FreePort returns HOST:PORT of a host of this machine on which nothing listens: in this
// process another port each time, also on another host, and none that an outgoing
// connection takes, or that another process chooses here for as long as this one runs. So
// a server that is not started yet, or is stopped for a while, finds its port free.
func FreePort(host string) (string, error) { return own.choose(host) }

func (p *ports) choose(host string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failure error
	for range 2 * portBlock {
		if p.next == p.end {
			if err := p.take(); err != nil {
				return "", err
			}
		}
		port := p.next
		p.next++
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
		failure = err
	}
	return "", failure
}

// take takes a block for as long as this process runs.
func (p *ports) take() error {
	var failure error
	for _, block := range rand.Perm(portsAll / portBlock) {
		first := portFirst + block*portBlock
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first)))
		if err == nil {
			p.guards = append(p.guards, l)
			p.next, p.end = first+1, first+portBlock
			return nil
		}
		failure = err
	}
	return fmt.Errorf("no block of %d ports is free, of %d: %w", portBlock, portsAll/portBlock, failure)
}

// As returns the beginning of a command that runs as a user, and gives that user a
// folder, if this process is root: some servers refuse to run as root. Otherwise it does
// nothing. The error wraps [user.UnknownUserError] if there is no such user.
func As(name, folder string) ([]string, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("%s cannot run as root: %w", name, err)
	}
	if err := Give(folder, u); err != nil {
		return nil, err
	}
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups"}, nil
}

// CheckEnter fails if a folder above or at a path keeps out the users that [As] runs
// servers as, with the first such folder from the root. It looks at the rights of all users
// only.
func CheckEnter(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	var all []string
	for at := path; ; at = filepath.Dir(at) {
		if all = append(all, at); at == filepath.Dir(at) {
			break
		}
	}
	for _, at := range slices.Backward(all) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if rights := info.Mode().Perm(); rights&0o001 == 0 {
			return fmt.Errorf("folder %s: the rights are %04o, but as root the database servers run as users of their own, who must be able to enter it: expected 0711 or another folder", at, rights)
		}
	}
	return nil
}

// Give makes a user the owner of a file or of a folder, without what is in it.
func Give(name string, u *user.User) error {
	id, err1 := strconv.Atoi(u.Uid)
	group, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return os.Chown(name, id, group)
}
