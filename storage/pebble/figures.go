package pebble

// Figures tell an operator how the data folder is doing.
type Figures struct {
	// DiskBytes is what the files hold, the write-ahead log included.
	DiskBytes int64
	// WALBytes is what the live write-ahead log holds.
	WALBytes int64
	// DebtBytes is what background work has yet to rewrite.
	DebtBytes int64
	// ReadFiles is in how many sorted runs a read may have to look.
	ReadFiles int
}

// Figures reads the figures, in some tens of microseconds. It is not for after
// Close.
func (d *Driver) Figures() Figures {
	m := d.db.Metrics()
	return Figures{DiskBytes: int64(m.DiskSpaceUsage()), WALBytes: int64(m.WAL.Size), DebtBytes: int64(m.Compact.EstimatedDebt), ReadFiles: m.ReadAmp()}
}
