package audit

import "bytes"

// Sender sends lines elsewhere. Only one goroutine uses it.
type Sender interface {
	// Send sends lines, each without its end. After an error it is called again with
	// them, so a line can arrive twice.
	Send(lines [][]byte) error
	// Close frees the resources.
	Close() error
}

// OpenSender opens a log that s sends elsewhere. Each log of a sender is a new one.
func OpenSender(s Sender, o Options) (*Log, error) { return open(&sent{sender: s}, place{}, o) }

// sent is an output to a sender.
type sent struct {
	endless
	sender Sender
}

func (s *sent) write(lines []byte) error {
	var parts [][]byte
	for line := range bytes.Lines(lines) {
		parts = append(parts, line[:len(line)-1])
	}
	return s.sender.Send(parts)
}

func (s *sent) close() error { return s.sender.Close() }
