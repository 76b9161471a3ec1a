package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// holderName is the file of a data folder that says which server holds it. It
	// means something only while the folder is locked.
	holderName     = "SERVER"
	holderBytesMax = 4096
)

// holder is who holds a folder.
type holder struct {
	PID   int               `json:"pid"`
	Ports map[string]string `json:"ports"`
}

// writeHolder tells who finds the folder locked where to ask instead.
func writeHolder(dir string, ports map[string]string) error {
	text, err := json.Marshal(holder{os.Getpid(), ports})
	if err != nil {
		return err
	}
	name := filepath.Join(dir, holderName)
	if err := os.WriteFile(name+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// removeHolder ends what writeHolder said.
func removeHolder(dir string) { os.Remove(filepath.Join(dir, holderName)) }

// alive says whether a process is there, as far as one may know.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// holderOf says what to do about a folder that is locked.
func holderOf(dir string) string {
	const otherwise = "another process holds the folder; end it, or ask through it"
	text, err := readFile(filepath.Join(dir, holderName), holderBytesMax)
	if err != nil {
		return otherwise
	}
	var h holder
	if err := json.Unmarshal(text, &h); err != nil || h.PID <= 0 || !alive(h.PID) {
		return otherwise
	}
	s := fmt.Sprintf("a server holds the folder (process %d); stop it", h.PID)
	if at := h.Ports["http"]; at != "" {
		s += ", or ask it: --server http://" + at
	}
	return s
}
