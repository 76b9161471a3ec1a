package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// HolderName is the file in a data folder that names the server that has the
	// folder open. It is valid only while the folder is locked.
	HolderName     = "SERVER"
	holderBytesMax = 4096
)

// Holder describes the server that has a folder open.
type Holder struct {
	PID   int               `json:"pid"`
	Ports map[string]string `json:"ports"`
	TLS   bool              `json:"tls,omitempty"`
}

// WriteHolder records this process and its ports in the folder, so that a command
// that finds the folder locked can name the server. The file is valid until it is
// closed.
func WriteHolder(dir string, ports map[string]string, tls bool) (*os.File, error) {
	text, err := json.Marshal(Holder{os.Getpid(), ports, tls})
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, HolderName)
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(append(text, '\n')); err == nil {
		err = lockHolder(f)
	}
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// RemoveHolder removes the file that WriteHolder wrote. It does not remove the file
// of another process, which is there if the folder was replaced.
func RemoveHolder(dir string) {
	name := filepath.Join(dir, HolderName)
	text, err := ReadFile(name, holderBytesMax)
	if err != nil {
		return
	}
	var h Holder
	if json.Unmarshal(text, &h) == nil && h.PID == os.Getpid() {
		os.Remove(name)
	}
}

// Alive reports whether a process with this id exists.
func Alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// ServerOf returns the server that has a folder open, or nil if none does. The file
// of a server that was killed stays, and its id may be the id of another process by
// now, so the file counts only while its lock is held.
func ServerOf(dir string) *Holder {
	f, err := os.Open(filepath.Join(dir, HolderName))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, holderBytesMax))
	var h Holder
	if err != nil || json.Unmarshal(text, &h) != nil || h.PID <= 0 || !Alive(h.PID) || holderEnded(f) {
		return nil
	}
	return &h
}

// lockHint returns advice on what to do about a locked folder. remote is true if a
// server can execute the command.
func lockHint(dir string, remote bool) string {
	h := ServerOf(dir)
	if h == nil {
		return "another process has the folder open; stop that process, or wait longer with --lock-wait"
	}
	s := fmt.Sprintf("a server has the folder open (process %d); stop it", h.PID)
	if at := h.Ports["http"]; at != "" && remote {
		scheme := "http"
		if h.TLS {
			scheme = "https"
		}
		s += ", or send the command to it: --server " + scheme + "://" + at
		if h.TLS {
			s += " (with --ca-cert FILE if its certificate has a private issuer)"
		}
	}
	return s
}
