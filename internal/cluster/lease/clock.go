package lease

import "time"

// started is the moment from which a BootClock counts if the kernel has none.
var started = time.Now()

// stretch returns a duration by which another clock has certainly measured d, if the
// two differ by 10 % at most.
func stretch(d time.Duration) time.Duration { return d + d/10 }
