package pebble

// Figures are metrics of a data folder for its operator.
type Figures struct {
	// DiskBytes is the size of all files in bytes, including the write-ahead log.
	DiskBytes int64
	// WALBytes is the size of the live write-ahead log in bytes.
	WALBytes int64
	// DebtBytes is the number of bytes that compactions still have to rewrite.
	DebtBytes int64
	// ReadFiles is the number of sorted files that a read may have to search.
	ReadFiles int
}

// Figures returns the current metrics. It takes some ten microseconds. It must
// not be called after Close.
func (d *Driver) Figures() Figures {
	m := d.db.Metrics()
	return Figures{DiskBytes: int64(m.DiskSpaceUsage()), WALBytes: int64(m.WAL.Size), DebtBytes: int64(m.Compact.EstimatedDebt), ReadFiles: m.ReadAmp()}
}
