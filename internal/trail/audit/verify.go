package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Finding is something wrong in the files of a log.
type Finding struct {
	File string // its base name; "" if it is about the whole log
	Line int    // from 1; 0 if it is about the whole file
	Text string
}

// String is the finding with its place.
func (f Finding) String() string {
	if f.File == "" {
		return f.Text
	}
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// Verified is the result of [Verify].
type Verified struct {
	Log         string // the id of the log
	Lines       int
	First, Last uint64 // the numbers of the first and the last line
	// Signed is the number of the last signed line, and SignedAt its time: what is up to
	// it is proved by the signature.
	Signed   uint64
	SignedAt time.Time
	Hash     string // of the last line
	Lost     int    // records that the node lost
	// Heads is how many heads with a valid signature the files were compared with.
	Heads int
	// Notes are what an auditor must know, and Findings what is wrong. At most
	// findingsMax are kept of each.
	Notes, Findings []Finding
}

// findingsMax bounds the findings that Verify keeps.
const findingsMax = 100

// VerifyOptions are the settings of [Verify].
type VerifyOptions struct {
	// Keys are the public keys of which one signed each signed line.
	Keys []ed25519.PublicKey
	// Running is true if the node still writes the last file.
	Running bool
	// Heads are heads that the node reported before the files were read, in any order. The
	// log must have their lines.
	Heads []Head
}

// parsed is a line whose hash is right.
type parsed struct {
	Number   uint64    `json:"number"`
	Time     time.Time `json:"time"`
	Kind     Kind      `json:"kind"`
	Log      string    `json:"log"`
	Before   string    `json:"before"`
	Oldest   uint64    `json:"oldest"`
	Unclosed bool      `json:"unclosed"`
	Torn     int64     `json:"torn"`
	Prev     string    `json:"prev"`
	Count    int       `json:"count"`

	hash      string
	signature []byte // nil if it has none
	signed    []byte // what is signed
}

// errLineTooLong is an error of a line that no log has.
var errLineTooLong = errors.New("the line is too long")

// readLine reads a line with its end. A line that is too long is returned in parts, each
// but the last with errLineTooLong.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
		if len(line) > lineMax {
			return line, errLineTooLong
		}
	}
}

const signatureMember = `,"signature":"`

// parseLine reads a line with its end. why is what is wrong, or "".
func parseLine(line []byte) (p parsed, why string) {
	const end = "\"}\n"
	at := len(line) - len(end) - 2*sha256.Size - len(hashMember)
	if at < 0 || !bytes.HasSuffix(line, []byte(end)) || string(line[at:at+len(hashMember)]) != hashMember {
		return p, "the line is not a whole line of an audit log"
	}
	content := line[:at]
	p.hash = string(line[at+len(hashMember) : len(line)-len(end)])
	sum := sha256.Sum256(content)
	if hex.EncodeToString(sum[:]) != p.hash {
		return p, "the line was changed: its hash is not that of its content"
	}
	if err := json.Unmarshal(append(bytes.Clone(content), '}'), &p); err != nil {
		return p, "the line is not JSON: " + err.Error()
	}
	if i := bytes.LastIndex(content, []byte(signatureMember)); i >= 0 && (p.Kind == KindBegin || p.Kind == KindHead || p.Kind == KindEnd) {
		p.signed = bytes.Clone(content[:i])
		var err error
		if p.signature, err = base64.StdEncoding.DecodeString(string(bytes.TrimSuffix(content[i+len(signatureMember):], []byte{'"'}))); err != nil {
			return p, "the signature is not base64"
		}
	}
	return p, ""
}

// verifier is a verification in progress.
type verifier struct {
	VerifyOptions
	out    *Verified
	prev   parsed // the line before; its number is 0 before the first
	file   string // of prev
	lost   bool   // a line was not readable, so the next one cannot be compared
	oldest uint64 // first record that the node kept, by the first line of the newest file
	// heads are the hashes of lines, of the heads whose lines were not read yet.
	heads map[uint64]string
}

// Verify reads the files of one log in their order, and finds whatever was changed,
// removed, added or reordered. Its error is one of reading.
func Verify(names []string, o VerifyOptions) (*Verified, error) {
	v := &verifier{VerifyOptions: o, out: &Verified{}, heads: map[uint64]string{}}
	var torn int64
	for i, name := range names {
		var err error
		if torn, err = v.readFile(name, i == len(names)-1, torn); err != nil {
			return nil, err
		}
	}
	v.atEnd(torn)
	v.missing()
	return v.out, nil
}

// baseOf returns the base name of a file, or "" for what is about the whole log.
func baseOf(file string) string {
	if file == "" {
		return ""
	}
	return filepath.Base(file)
}

func (v *verifier) find(file string, line int, format string, more ...any) {
	if len(v.out.Findings) < findingsMax {
		v.out.Findings = append(v.out.Findings, Finding{baseOf(file), line, fmt.Sprintf(format, more...)})
	}
}

func (v *verifier) note(file string, line int, format string, more ...any) {
	if len(v.out.Notes) < findingsMax {
		v.out.Notes = append(v.out.Notes, Finding{baseOf(file), line, fmt.Sprintf(format, more...)})
	}
}

// readFile verifies a file. tornBefore is how many bytes at the end of the file before
// are no line, and torn the same for this one.
func (v *verifier) readFile(name string, last bool, tornBefore int64) (torn int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, err := readLine(r)
		if len(line) > 0 {
			p, why := parsed{}, "the line is too long"
			if err == nil || err == io.EOF {
				p, why = parseLine(line)
			}
			if why == "" {
				if torn > 0 {
					v.find(name, n, "a whole line follows what is no line")
				}
				v.line(name, n, &p, tornBefore)
				torn = 0
			} else if torn += int64(len(line)); true {
				v.find(name, n, "%s", why)
				v.lost = true
			}
		} else if n == 1 && err == io.EOF {
			v.find(name, 0, "the file is empty")
		}
		if err == io.EOF {
			return torn, nil
		}
		if err != nil && err != errLineTooLong {
			return torn, err
		}
	}
}

// line verifies the place of a line, and its signature.
func (v *verifier) line(file string, n int, p *parsed, torn int64) {
	out := v.out
	switch {
	case n == 1 && p.Kind != KindBegin:
		v.find(file, n, "the file begins with record %d, not with a signed first line: lines were removed", p.Number)
	case n > 1 && p.Kind == KindBegin:
		v.find(file, n, "a first line of a file is inside another file")
	}
	switch prev := &v.prev; {
	case prev.Number == 0:
		out.Log, out.First = p.Log, p.Number
		v.compare()
		if p.Number > 1 && !v.lost {
			v.note(file, n, "the log begins with record 1: the files up to record %d are not among those given", p.Number-1)
		}
	case p.Log != "" && out.Log != "" && p.Log != out.Log:
		v.find(file, n, "the line is of another log: %s, expected %s", p.Log, out.Log)
	case v.lost:
		if p.Number <= prev.Number {
			v.find(file, n, "record %d follows record %d: the order was changed", p.Number, prev.Number)
		} else if p.Number > prev.Number+2 {
			v.find(file, n, "record %d follows record %d and a line that was changed: records are missing", p.Number, prev.Number)
		}
	case p.Number <= prev.Number:
		v.find(file, n, "record %d follows record %d: the order was changed", p.Number, prev.Number)
	case p.Number > prev.Number+1 && n == 1:
		v.find(file, n, "record %d follows record %d: a file is missing, or the end of %s was cut", p.Number, prev.Number, filepath.Base(v.file))
	case p.Number > prev.Number+1:
		v.find(file, n, "record %d follows record %d: records are missing", p.Number, prev.Number)
	case p.Prev != prev.hash:
		v.find(file, n, "record %d does not continue record %d: one of them was replaced", p.Number, prev.Number)
	case prev.Kind == KindEnd && n > 1:
		v.find(file, n, "a record follows the last line of a file")
	}
	if p.Kind == KindBegin {
		v.begin(file, n, p, torn)
	}
	v.signature(file, n, p)
	if hash, ok := v.heads[p.Number]; ok {
		if hash != p.hash {
			v.find(file, n, "record %d is not that of the signed head with this number: the log was replaced from there or from an earlier record on", p.Number)
		}
		delete(v.heads, p.Number)
	}
	if p.Kind == KindLost {
		out.Lost += p.Count
		v.note(file, n, "the node lost %d records here", p.Count)
	}
	out.Lines++
	out.Last, out.Hash = p.Number, p.hash
	v.prev, v.file, v.lost = *p, file, false
}

// begin verifies what the first line of a file has about the file before.
func (v *verifier) begin(file string, n int, p *parsed, torn int64) {
	v.oldest = p.Oldest
	if v.prev.Number == 0 {
		return
	}
	closed := v.prev.Kind == KindEnd
	switch {
	case !closed && !p.Unclosed:
		v.find(v.file, 0, "the file has no last line, but it had one: its end was cut")
	case !closed:
		v.note(v.file, 0, "the file has no last line: the node was killed, and records after number %d may not have been written", v.prev.Number)
	}
	if torn != p.Torn {
		v.find(v.file, 0, "%d bytes at its end are no line, but there were %d when the node went on", torn, p.Torn)
	}
}

// signature verifies the signature of a line that must have one.
func (v *verifier) signature(file string, n int, p *parsed) {
	if p.Kind != KindBegin && p.Kind != KindHead && p.Kind != KindEnd {
		return
	}
	message := append([]byte(signedPrefix), p.signed...)
	for _, key := range v.Keys {
		if len(p.signature) == ed25519.SignatureSize && ed25519.Verify(key, message, p.signature) {
			v.out.Signed, v.out.SignedAt = p.Number, p.Time
			return
		}
	}
	v.find(file, n, "record %d has no valid signature of the key", p.Number)
}

// atEnd verifies the end of the last file.
func (v *verifier) atEnd(torn int64) {
	switch {
	case v.prev.Number == 0:
		if len(v.out.Findings) == 0 {
			v.find("", 0, "no file has a line of an audit log")
		}
		return
	case v.prev.Kind == KindEnd && v.prev.Before != beforeRotation:
	case v.prev.Kind == KindEnd && !v.Running:
		v.find(v.file, 0, "the log goes on after the last line, record %d: the last file is missing", v.prev.Number)
	case v.prev.Kind == KindEnd:
	case v.Running:
		v.note(v.file, 0, "the node still writes the file: the %d records after number %d are not signed yet", v.prev.Number-v.out.Signed, v.out.Signed)
	default:
		v.find(v.file, 0, "the file has no last line: its end was cut after record %d, or the node was killed or still runs", v.prev.Number)
	}
	if v.oldest < v.out.First {
		v.find(v.file, 0, "the node kept the files from record %d on, but the first one given begins with record %d: a file is missing", v.oldest, v.out.First)
	}
}

// compare prepares the comparison with the heads, once the id of the log is known. A head
// without a valid signature proves nothing, and is only a finding if none has one: others
// can write to the log of a server too.
func (v *verifier) compare() {
	for _, h := range v.Heads {
		before, twice := v.heads[h.Number]
		switch {
		case !h.signedBy(v.Keys):
			v.note("", 0, "a head of record %d has no valid signature of the key, and is ignored", h.Number)
			continue
		case h.Log != v.out.Log:
			v.find("", 0, "record %d was signed as the head of the log %s, but the files are of the log %s: all files of the other log are missing", h.Number, h.Log, v.out.Log)
		case twice && before != h.Hash:
			v.find("", 0, "two heads of record %d differ: the log was replaced between them", h.Number)
		default:
			v.heads[h.Number] = h.Hash
		}
		v.out.Heads++
	}
	if len(v.Heads) > 0 && v.out.Heads == 0 {
		v.find("", 0, "no head has a valid signature of the key")
	}
}

// missing finds the heads whose lines the files do not have.
func (v *verifier) missing() {
	for _, number := range slices.Sorted(maps.Keys(v.heads)) {
		switch {
		case number > v.out.Last:
			v.find(v.file, 0, "the log ends with record %d, but record %d was signed as its head: the end is missing, or an older copy was restored", v.out.Last, number)
		case number >= v.out.First:
			v.find(v.file, 0, "record %d was signed as the head of the log, but it is missing", number)
		case number >= v.oldest:
			v.find(v.file, 0, "record %d was signed as the head of the log, and the node keeps the files from record %d on, but the first one given begins with record %d: a file is missing", number, v.oldest, v.out.First)
		}
	}
}
