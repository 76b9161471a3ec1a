package ostiary

import "sync"

// latch is opened once, and may be waited for. One that nobody waits for makes
// no channel. The zero latch is shut.
type latch struct {
	mu     sync.Mutex
	isOpen bool
	ch     chan struct{} // nil until somebody waits
}

func (l *latch) open() {
	l.mu.Lock()
	l.isOpen = true
	if l.ch != nil {
		close(l.ch)
	}
	l.mu.Unlock()
}

// shut makes the latch a new one. It is the caller's alone.
func (l *latch) shut() { l.isOpen, l.ch = false, nil }

func (l *latch) opened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isOpen
}

func (l *latch) wait() {
	if !l.opened() {
		<-l.channel()
	}
}

// channel is closed when the latch is opened.
func (l *latch) channel() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ch == nil {
		l.ch = make(chan struct{})
		if l.isOpen {
			close(l.ch)
		}
	}
	return l.ch
}
