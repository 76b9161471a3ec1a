package quote

import "bytes"

// blockBytes is the length of a block. A position costs at most one block.
const blockBytes = 256

// Index finds positions in one text. It is for one goroutine.
type Index struct {
	text []byte
	// blocks are the positions at the beginnings of the blocks that were reached.
	blocks []block
	read   int
}

// block is the position of the first byte of a block.
type block struct {
	line  int32 // number of the line, from 1
	start int32 // offset of the beginning of that line
}

// NewIndex returns an index of text, which must be shorter than 2 GiB and must not
// change. It reads nothing yet.
func NewIndex(text []byte) Index { return Index{text: text} }

// At returns the line and the column of an offset, both from 1. The column counts
// bytes. An offset behind the text counts as its end.
func (x *Index) At(offset int) (line, column int) {
	offset = min(offset, len(x.text))
	number := offset / blockBytes
	for len(x.blocks) <= number {
		x.grow()
	}
	from := number * blockBytes
	at := x.pass(x.blocks[number], from, offset)
	return int(at.line), offset - int(at.start) + 1
}

// grow adds the next block.
func (x *Index) grow() {
	if len(x.blocks) == 0 {
		x.blocks = append(x.blocks, block{line: 1})
		return
	}
	last := len(x.blocks) - 1
	x.blocks = append(x.blocks, x.pass(x.blocks[last], last*blockBytes, (last+1)*blockBytes))
}

// pass returns the position at the offset to, from that at the offset from.
func (x *Index) pass(at block, from, to int) block {
	part := x.text[from:to]
	x.read += len(part)
	if n := bytes.Count(part, []byte{'\n'}); n > 0 {
		at.line += int32(n)
		at.start = int32(from + bytes.LastIndexByte(part, '\n') + 1)
	}
	return at
}

// Read returns how many bytes the positions have cost so far, for tests.
func (x *Index) Read() int { return x.read }
