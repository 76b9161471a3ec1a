package parts

import (
	"cmp"
	"log/slog"

	"github.com/ostiary/ostiary/internal/cluster/lease"
)

// systemTested is the operating system on which nodes are tested.
const systemTested = "linux"

// warnSystem logs what is not promised for a node on an operating system. clock measures its
// leases; nil means that of the machine.
func warnSystem(log *slog.Logger, system string, clock lease.Clock) {
	if system != systemTested {
		log.Warn("nodes are tested on Linux only, and this is another system: use it to try a cluster, not for data that matter", "system", system)
	}
	if c, ok := cmp.Or[lease.Clock](clock, lease.BootClock{}).(interface{ MayStop() bool }); ok && c.MayStop() {
		log.Warn("the clock that measures leases may stop while the machine is suspended, and the node could then answer from old data: never suspend the machine while the node runs", "system", system)
	}
	if system == "windows" {
		log.Warn("files have no modes on this system: let no other user open the data folder and the files of keys, which are all that it takes to be a node of the cluster", "system", system)
	}
}
