package onceredis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/oncekit/once"
)

func outcomeKind(c string) once.OutcomeKind {
	if c == "t" {
		return once.Tombstone
	}
	return once.Kept
}

// header is the beginning of a record, as script.go describes it.
type header struct {
	state, policy byte
	kind          once.OutcomeKind
	fence         int64
	// When, in µs since 1970; finished is 0 while the attempt has not ended.
	claimed, lease, finished, last int64
	retention                      int64 // µs
	attempt                        int64
	notes, size                    int64 // bytes
	fingerprint                    once.Fingerprint
}

// parseHeader reads the header of a record. It returns [once.ErrCorrupt].
func parseHeader(v string) (header, error) {
	if len(v) < headerSize || v[0] != '1' {
		return header{}, fmt.Errorf("%w: it has no header", once.ErrCorrupt)
	}
	b := []byte(v[:headerSize])
	number := func(from int) int64 { return int64(binary.BigEndian.Uint64(b[from:])) }
	h := header{
		state: v[1], policy: v[2], kind: outcomeKind(v[4:5]),
		fence: number(5), claimed: number(13), lease: number(21), finished: number(29),
		last: number(37), retention: number(45),
		attempt:     int64(binary.BigEndian.Uint32(b[53:])),
		notes:       int64(binary.BigEndian.Uint16(b[57:])),
		size:        int64(binary.BigEndian.Uint32(b[59:])),
		fingerprint: once.Fingerprint(b[63:96]),
	}
	most := max(h.fence, h.claimed, h.lease, h.finished, h.last, h.retention)
	least := min(h.fence, h.claimed, h.lease, h.finished, h.last, h.retention)
	if most >= 1<<53 || least < 0 {
		return header{}, fmt.Errorf("%w: a number is out of its bounds", once.ErrCorrupt)
	}
	return h, nil
}

// ended tells a record that has an expiry of its own.
func (h *header) ended() bool { return h.state == 'c' || h.state == 'r' }

// expires is when it is absent, in µs: for one that has not ended, if its lease ends under retry
// and nobody asks for it.
func (h *header) expires() int64 {
	since := h.lease
	if h.ended() {
		since = max(h.finished, h.last)
	}
	return since + h.retention + (h.retention+15)/16
}

// record is what people are shown of a record, at the server's time in µs. It is false for one that
// is past its retention.
func (h *header) record(id once.Identity, now int64) (once.Record, bool) {
	r := once.Record{
		Identity: id, Fingerprint: h.fingerprint, Fence: h.fence, Attempt: int(h.attempt),
		ClaimedAt: time.UnixMicro(h.claimed), LastAt: time.UnixMicro(h.last),
		LeaseEnd: time.UnixMicro(h.lease), Size: int(h.size),
		Outcome: once.Outcome{Kind: h.kind},
	}
	if h.policy == 'h' {
		r.OnUnknown = once.Hold
	}
	if h.finished > 0 {
		r.FinishedAt = time.UnixMicro(h.finished)
	}
	switch {
	case h.ended():
		r.State = once.Released
		if h.state == 'c' {
			r.State = once.Completed
		}
		r.ExpiresAt = time.UnixMicro(h.expires())
		return r, now < h.expires()
	case h.state == 'f' && now < h.lease:
		r.State = once.InFlight
	case h.policy == 'h':
		r.State = once.Held
	default:
		r.State = once.Lost
		if h.state == 'f' {
			r.ExpiresAt = time.UnixMicro(h.expires())
		}
	}
	return r, true
}

// encodeNote writes a note, cut, each text with its length before it.
func encodeNote(n once.Note) []byte {
	n = n.Cut()
	b := make([]byte, 0, 128)
	for _, text := range append([]string{n.Key, n.Request}, n.Scope...) {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b
}

// decodeNote reads a note. It returns [once.ErrCorrupt].
func decodeNote(b []byte) (once.Note, error) {
	var texts []string
	for len(b) > 0 {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return once.Note{}, fmt.Errorf("%w: its note is cut", once.ErrCorrupt)
		}
		texts = append(texts, string(b[used:used+int(n)]))
		b = b[used+int(n):]
	}
	if len(texts) < 2 {
		return once.Note{}, fmt.Errorf("%w: it has no note", once.ErrCorrupt)
	}
	note := once.Note{Key: texts[0], Request: texts[1]}
	if len(texts) > 2 {
		note.Scope = texts[2:]
	}
	return note, nil
}
