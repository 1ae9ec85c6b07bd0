package oncesqlite

import (
	"slices"
	"sync"
	"time"

	"github.com/oncekit/once/queue"
)

// Bounds of what is remembered of repeats.
const (
	// keptArrivals: of very many arrivals so many first and so many last ones are kept.
	keptArrivals = 20
	// maxNotes bounds the rows with repeats that are not written yet, but for those of transactions
	// that are on their way; past it the writer writes each repeat at once.
	maxNotes = 32768
	// notesDelay is how long a repeat may wait until it is counted in the file: what comes of its
	// row meanwhile is written with it.
	notesDelay = time.Second
	// notesPerCommit bounds the rows whose repeats are written in one transaction.
	notesPerCommit = 128
)

// note is what came in of one row's repeats since the last writing.
type note struct {
	seq   int64
	count int64
	last  int64
	// first and latest arrivals, keptArrivals each.
	first, latest []arrivalNote
}

type arrivalNote struct {
	at   int64
	peer string
}

// notes are repeats that are counted behind their acknowledgement.
type notes struct {
	mu    sync.Mutex
	bySeq map[int64]*note
	order []int64 // rows, by their first repeat
}

func (n *notes) add(seq, at int64, peer string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.bySeq == nil {
		n.bySeq = map[int64]*note{}
	}
	e := n.bySeq[seq]
	if e == nil {
		e = &note{seq: seq}
		n.bySeq[seq] = e
		n.order = append(n.order, seq)
	}
	e.count++
	e.last = max(e.last, at)
	e.keep(arrivalNote{at, peer})
}

// keep remembers an arrival among the first or the latest ones.
func (e *note) keep(a arrivalNote) {
	if len(e.first) < keptArrivals {
		e.first = append(e.first, a)
		return
	}
	if len(e.latest) == keptArrivals {
		copy(e.latest, e.latest[1:])
		e.latest = e.latest[:keptArrivals-1]
	}
	e.latest = append(e.latest, a)
}

func (n *notes) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.order)
}

// lastOf returns when the last repeat of a row came that is not written yet; 0: there is none.
func (n *notes) lastOf(seq int64) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.bySeq[seq]; e != nil {
		return e.last
	}
	return 0
}

// take removes up to limit notes, oldest first; 0 takes all.
func (n *notes) take(limit int) []*note {
	n.mu.Lock()
	defer n.mu.Unlock()
	if limit <= 0 || limit > len(n.order) {
		limit = len(n.order)
	}
	out := make([]*note, 0, limit)
	for _, seq := range n.order[:limit] {
		out = append(out, n.bySeq[seq])
		delete(n.bySeq, seq)
	}
	n.order = n.order[limit:]
	return out
}

// putBack restores what was taken for a transaction that failed, before what came in meanwhile.
func (n *notes) putBack(taken []*note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.bySeq == nil {
		n.bySeq = map[int64]*note{}
	}
	order, again := make([]int64, 0, len(taken)+len(n.order)), map[int64]bool{}
	for _, e := range taken {
		later := n.bySeq[e.seq]
		n.bySeq[e.seq] = e
		order, again[e.seq] = append(order, e.seq), true
		if later == nil {
			continue
		}
		e.count, e.last = e.count+later.count, max(e.last, later.last)
		for _, a := range slices.Concat(later.first, later.latest) {
			e.keep(a)
		}
	}
	for _, seq := range n.order {
		if !again[seq] {
			order = append(order, seq)
		}
	}
	n.order = order
}

// flush writes what came in, up to limit rows.
func (n *notes) flush(t *txn, limit int) error {
	taken := n.take(limit)
	t.onUndo(func() {
		if !t.inFile {
			n.putBack(taken)
		}
	})
	for _, e := range taken {
		if err := t.writeNote(e); err != nil {
			return err
		}
	}
	return nil
}

func (t *txn) writeNote(e *note) error {
	have := int64(0)
	found, err := t.c.one("UPDATE rows SET duplicates = duplicates + ?1, "+
		"last_at = max(coalesce(last_at, received_at), ?2) WHERE seq = ?3 "+
		"RETURNING duplicates + conflicts - ?1", func(r *stmt) { have = r.int(0) },
		e.count, e.last, e.seq)
	if err != nil || !found {
		return err // not found: swept meanwhile
	}
	total := have + e.count
	for i, a := range e.first {
		if err := t.putReceipt(e.seq, have+int64(i)+1, a); err != nil {
			return err
		}
	}
	for i, a := range e.latest {
		if err := t.putReceipt(e.seq, total-int64(len(e.latest)-i)+1, a); err != nil {
			return err
		}
	}
	return t.trimReceipts(e.seq, total)
}

func (t *txn) putReceipt(seq, n int64, a arrivalNote) error {
	q, err := t.c.prepare("INSERT INTO receipts (seq, n, at, outcome, peer) " +
		"VALUES (?, ?, ?, '" + string(queue.Duplicate) + "', ?) ON CONFLICT DO NOTHING")
	if err != nil {
		return err
	}
	q.bindInt(1, seq)
	q.bindInt(2, n)
	q.bindInt(3, a.at)
	q.bindText(4, a.peer)
	return q.run()
}

// trimReceipts keeps the first and the last arrivals, of conflicts the first and last among
// themselves, and those that a person accepted.
func (t *txn) trimReceipts(seq, total int64) error {
	if total <= 2*keptArrivals {
		return nil
	}
	err := t.c.exec("DELETE FROM receipts WHERE seq = ? AND n > ? AND n <= ? AND outcome = ?",
		seq, keptArrivals, total-keptArrivals, string(queue.Duplicate))
	if err != nil {
		return err
	}
	conflicts, err := t.c.int("SELECT count(*) FROM receipts WHERE seq = ? AND outcome = ? "+
		"AND accepted IS NULL", seq, string(queue.Conflict))
	if err != nil || conflicts <= 2*keptArrivals {
		return err
	}
	return t.c.exec("DELETE FROM receipts WHERE seq = ?1 AND n IN (SELECT n FROM receipts "+
		"WHERE seq = ?1 AND outcome = ?2 AND accepted IS NULL ORDER BY n LIMIT ?3 OFFSET ?4)",
		seq, string(queue.Conflict), conflicts-2*keptArrivals, keptArrivals)
}

// addReceipt keeps an arrival at once, a conflict with its content.
func (t *txn) addReceipt(row *stored, a *queue.Arrival, o queue.Outcome) error {
	n, err := t.c.int("SELECT duplicates + conflicts + 1 FROM rows WHERE seq = ?", row.Seq)
	if err != nil {
		return err
	}
	column, meta, body := "duplicates", []byte(nil), []byte(nil)
	if o == queue.Conflict {
		column, meta, body = "conflicts", a.Meta, a.Body
	}
	err = t.c.exec("UPDATE rows SET "+column+" = "+column+" + 1, last_at = ? WHERE seq = ?",
		t.now, row.Seq)
	if err != nil {
		return err
	}
	err = t.c.exec("INSERT INTO receipts (seq, n, at, outcome, peer, fingerprint, meta, body) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row.Seq, n, t.now, string(o),
		a.Peer, a.Fingerprint[:], meta, body)
	if err != nil {
		return err
	}
	return t.trimReceipts(row.Seq, n)
}
