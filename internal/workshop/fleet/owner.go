//go:build linux

package fleet

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// owns reports whether a process has the other end of a connection of loopback, by the
// tables of Linux in /proc.
func owns(process int, c net.Conn) bool {
	at, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	socket := socketOf(at)
	if socket == "" {
		return false
	}
	folder := fmt.Sprintf("/proc/%d/fd", process)
	files, err := os.ReadDir(folder)
	if err != nil {
		return false
	}
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(folder, f.Name())); err == nil && to == socket {
			return true
		}
	}
	return false
}

// socketOf returns the name of the socket with a local address; "" if there is none.
func socketOf(at *net.TCPAddr) string {
	ip := at.IP.To4()
	if ip == nil {
		return ""
	}
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer f.Close()
	local := fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], at.Port)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 9 && fields[1] == local && fields[9] != "0" {
			return "socket:[" + fields[9] + "]"
		}
	}
	return ""
}
