package replica

// Waiting returns the number of changes that wait in the queue.
func (r *Driver) Waiting() int {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	return len(r.queue.waiting)
}
