package eval

// closure is the set of nodes of one kind that hold the subject, found from
// the subject's side.
type closure struct{}

// closed decides a list by the subject's side, where that is cheaper. It
// returns false where the list must be followed.
func (w *search) closed(p *pending) bool { return false }
