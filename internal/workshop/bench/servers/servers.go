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
	"sync/atomic"
)

// Ports are chosen from these. Systems take others, above them, for connections that
// programs open.
const (
	portFirst = 10_000
	portsAll  = 22_000
)

// [FreePort] begins at a random port, and counts those that it has tried.
var (
	begin = rand.IntN(portsAll)
	tried atomic.Int64
)

// FreePort returns HOST:PORT of a host of this machine on which nothing listens: in this
// process another port each time, also on another host, and none that an outgoing
// connection takes.
func FreePort(host string) (string, error) {
	var failure error
	for range 100 {
		port := portFirst + (begin+int(tried.Add(1)))%portsAll
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
		failure = err
	}
	return "", failure
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
