package oncepg

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/internal/value"
)

// rowIdentity is the constraint that a row breaks which somebody else has stored meanwhile.
const rowIdentity = "queue_content_identity"

// isTakenIdentity tells that an arrival came first of which a batch could not know: worked out
// again it does.
func isTakenIdentity(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == codeUnique && pg.ConstraintName == rowIdentity
}

// write queues the statements that make true what a batch has changed.
func (s *storeSQL) write(b *pgx.Batch, t *turn.Batch) error {
	for _, part := range []func(*pgx.Batch, *turn.Batch) error{s.writeRows, s.writeArrivals,
		s.writeTasks, s.writeHistory, s.writeResources, s.writeRest} {
		if err := part(b, t); err != nil {
			return err
		}
	}
	s.count(b, "", t.Counted())
	return nil
}

// writeRows changes rows in the order of their numbers, as whoever counts arrivals does: so they
// don't wait for each other in a circle.
func (s *storeSQL) writeRows(b *pgx.Batch, t *turn.Batch) error {
	list := t.Rows.Changes()
	slices.SortFunc(list, func(x, y turn.Change[int64, turn.Row]) int {
		return cmp.Compare(x.Key, y.Key)
	})
	var fresh []*turn.Row
	var hot hotRows
	var gone []int64
	for _, c := range list {
		switch {
		case c.Now == nil:
			gone = append(gone, c.Key)
		case c.Old == nil:
			fresh = append(fresh, c.Now)
		case isHot(c.Old, c.Now):
			hot.add(c.Now)
		default:
			if err := s.changeWhole(b, c.Old, c.Now); err != nil {
				return err
			}
		}
	}
	if err := s.insertFresh(b, fresh); err != nil {
		return err
	}
	if len(hot.seq) > 0 {
		b.Queue(s.changeHot, hot.args()...)
	}
	if len(gone) > 0 {
		b.Queue(s.deleteRows, gone)
	}
	return nil
}

// insertFresh stores new rows. What has already happened to one in its batch is written behind.
func (s *storeSQL) insertFresh(b *pgx.Batch, fresh []*turn.Row) error {
	if len(fresh) == 0 {
		return nil
	}
	as := make([]*turn.Row, len(fresh))
	for i, r := range fresh {
		if as[i] = r; !isUntouched(r) {
			was := *r
			was.SetPhase(turn.Ready)
			was.SweepAt, was.Duplicates, was.Conflicts = 0, 0, 0
			as[i] = &was
		}
	}
	b.Queue(s.insertRows, rowsArgs(as)...)
	for i, r := range fresh {
		if as[i] != r {
			if err := s.changeWhole(b, as[i], r); err != nil {
				return err
			}
		}
	}
	return nil
}

// isUntouched reports whether a row is as its arrival was stored.
func isUntouched(r *turn.Row) bool {
	return (r.Phase == turn.Ready || r.Phase == turn.Unrouted) && !r.InLine && !r.Acted &&
		r.Attempt == 0 && r.Newest == 0 && r.Waits == nil && r.Duplicates+r.Conflicts == 0 &&
		r.LastAt == 0 && r.NextAt == 0 && r.FinishedAt == 0 && r.Error == "" && r.Attempts == nil
}

// isHot reports whether of a row nothing changed but what changeHot writes.
func isHot(a, b *turn.Row) bool {
	return a.Lane == b.Lane && a.OrderKey == b.OrderKey && a.Source == b.Source &&
		a.Event == b.Event && a.Flow == b.Flow && a.Task == b.Task && a.Blocks == b.Blocks &&
		a.LimitPassed == b.LimitPassed && a.Acted == b.Acted && a.Duplicates == b.Duplicates &&
		a.Conflicts == b.Conflicts && a.Newest == b.Newest && a.LastAt == b.LastAt &&
		a.WaitUntil == b.WaitUntil && a.DeadCause == b.DeadCause &&
		slices.Equal(a.Waits, b.Waits) && slices.Equal(a.Attempts, b.Attempts) &&
		slices.Equal(a.Accepted, b.Accepted) && samePayload(a, b)
}

func samePayload(a, b *turn.Row) bool {
	return a.Fingerprint == b.Fingerprint && a.TraceParent == b.TraceParent &&
		a.TraceState == b.TraceState && sameBytes(a.Meta, b.Meta) && sameBytes(a.Body, b.Body)
}

// sameBytes tells what is empty from what is not there.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// hotRows are the columns of changeHot.
type hotRows struct {
	seq, fence                                   []int64
	phase, node, reason                          []pgtype.Text
	inLine                                       []bool
	attempt, lost                                []int32
	next, started, finished, sweepAt, leaseUntil []pgtype.Timestamptz
}

// orNull is a text, and NULL for none.
func orNull(text string) pgtype.Text {
	return pgtype.Text{String: recordText(text), Valid: text != ""}
}

func textOf(text string) pgtype.Text { return pgtype.Text{String: recordText(text), Valid: true} }

func (h *hotRows) add(r *turn.Row) {
	h.seq, h.fence = append(h.seq, r.Seq), append(h.fence, r.Fence)
	h.phase = append(h.phase, textOf(string(r.Phase)))
	h.node, h.reason = append(h.node, orNull(r.Node)), append(h.reason, textOf(r.Error))
	h.inLine = append(h.inLine, r.InLine)
	h.attempt, h.lost = append(h.attempt, int32(r.Attempt)), append(h.lost, int32(r.Lost))
	h.next, h.started = append(h.next, stampOut(r.NextAt)), append(h.started, stampOut(r.StartedAt))
	h.finished = append(h.finished, stampOut(r.FinishedAt))
	h.sweepAt = append(h.sweepAt, stampOut(r.SweepAt))
	h.leaseUntil = append(h.leaseUntil, stampOut(r.LeaseUntil))
}

func (h *hotRows) args() []any {
	return []any{h.seq, h.phase, h.inLine, h.attempt, h.lost, h.fence, h.next, h.started,
		h.finished, h.sweepAt, h.leaseUntil, h.node, h.reason}
}

// changeWhole writes all that changes of a row.
func (s *storeSQL) changeWhole(b *pgx.Batch, old, r *turn.Row) error {
	attempts, err := toJSON(r.Attempts)
	if err != nil {
		return fmt.Errorf("write row %d: %w", r.Seq, err)
	}
	accepted, err := toJSON(r.Accepted)
	if err != nil {
		return fmt.Errorf("write row %d: %w", r.Seq, err)
	}
	newest := pgtype.Int8{Int64: r.Newest, Valid: r.Newest != 0}
	b.Queue(s.changeRow, r.Seq, string(r.Phase), r.InLine, int32(r.Attempt), int32(r.Lost), r.Fence,
		stampOut(r.NextAt), stampOut(r.StartedAt), stampOut(r.FinishedAt), stampOut(r.SweepAt),
		stampOut(r.LeaseUntil), orNull(r.Node), recordText(r.Error), recordText(r.Lane),
		recordText(r.OrderKey), recordText(r.Flow), recordText(r.Task), r.Blocks, r.LimitPassed,
		r.Acted, r.Duplicates-old.Duplicates,
		r.Conflicts-old.Conflicts, newest, stampOut(r.LastAt), stampOut(r.WaitUntil),
		string(r.DeadCause), textsOut(r.Waits), attempts, accepted,
		marksOut(r.Waits))
	if old.Source != r.Source || old.Event != r.Event {
		b.Queue(s.moveRow, r.Seq, recordText(r.Source), recordText(r.Event))
	}
	if !samePayload(old, r) {
		b.Queue(s.setPayload, r.Seq, fingerprintOut(r.Fingerprint), recordText(r.TraceParent),
			recordText(r.TraceState), r.Meta, r.Body)
	}
	return nil
}

// fingerprintOut is a fingerprint as it is stored; none is NULL.
func fingerprintOut(fp once.Fingerprint) []byte {
	if fp == (once.Fingerprint{}) {
		return nil
	}
	return fp[:]
}

// rowsArgs are the arguments of insertRows.
func rowsArgs(list []*turn.Row) []any {
	n := len(list)
	var (
		numbers  [3][]int64
		binaries [4][][]byte
		times    [3][]pgtype.Timestamptz
		arrays   [2][]pgtype.Text
		texts    [12][]string
	)
	grow(n, numbers[:])
	grow(n, binaries[:])
	grow(n, times[:])
	grow(n, arrays[:])
	grow(n, texts[:])
	frees, revision := make([]bool, n), make([]int32, n)
	for i, r := range list {
		numbers[0][i], numbers[1][i], numbers[2][i] = r.Seq, r.RetentionMS, r.KeepBodyMS
		binaries[0][i], binaries[1][i] = r.Identity[:], fingerprintOut(r.Fingerprint)
		binaries[2][i], binaries[3][i] = r.Meta, r.Body
		frees[i], revision[i] = r.Frees, int32(r.Revision)
		times[0][i], times[1][i] = stampOut(r.ReceivedAt), stampOut(r.ExpiresAt)
		times[2][i] = stampOut(r.SweepAt)
		arrays[0][i], arrays[1][i] = textsOut(r.Key), marksOut(r.Key)
		for j, text := range [...]string{string(r.Phase), r.Lane, r.OrderKey, r.Source, r.Event,
			r.Flow, r.Task, r.Resource, r.Cause, r.Peer, r.TraceParent, r.TraceState} {
			texts[j][i] = recordText(text)
		}
	}
	return []any{numbers[0], binaries[0], texts[0], texts[1], texts[2], frees, revision, numbers[1],
		numbers[2], times[0], times[1], times[2], texts[3], texts[4], texts[5], texts[6], arrays[0],
		arrays[1], texts[7], texts[8], texts[9], texts[10], texts[11], binaries[1], binaries[2],
		binaries[3]}
}

// writeArrivals keeps later arrivals.
func (s *storeSQL) writeArrivals(b *pgx.Batch, t *turn.Batch) error {
	var seqs, ns []int64
	for _, c := range t.Arrivals.Changes() {
		if d := c.Now; d != nil {
			b.Queue(s.putArrival, d.Row, d.N, stampOut(d.At), string(d.Outcome), recordText(d.Peer),
				d.Accepted, fingerprintOut(d.Fingerprint), d.Meta, d.Body)
			continue
		}
		seqs, ns = append(seqs, c.Key.Row), append(ns, c.Key.N)
	}
	if len(seqs) > 0 {
		b.Queue(s.deleteArrivals, seqs, ns)
	}
	return nil
}

func (s *storeSQL) writeTasks(b *pgx.Batch, t *turn.Batch) error {
	var (
		flow, task, state                        []string
		n, version, retention, gone              []int64
		isGone, final                            []bool
		created, since, updated, overdue, sweeps []pgtype.Timestamptz
		fields, taken                            []pgtype.Text
	)
	for _, c := range t.Tasks.Changes() {
		d := c.Now
		if d == nil {
			gone = append(gone, c.Old.N)
			continue
		}
		what, err := encodeTask(d)
		if err != nil {
			return fmt.Errorf("write task %s/%s: %w", d.Flow, d.Task, err)
		}
		flow, task = append(flow, recordText(d.Flow)), append(task, recordText(d.Task))
		state = append(state, recordText(d.State))
		n, version = append(n, d.N), append(version, d.Version)
		retention = append(retention, d.RetentionMS)
		isGone, final = append(isGone, d.Gone), append(final, d.Final)
		created, since = append(created, stampOut(d.CreatedAt)), append(since, stampOut(d.SinceAt))
		updated = append(updated, stampOut(d.UpdatedAt))
		overdue = append(overdue, stampOut(d.OverdueAt))
		sweeps = append(sweeps, stampOut(d.SweepAt))
		fields, taken = append(fields, what[0]), append(taken, what[1])
	}
	if len(gone) > 0 {
		b.Queue(s.deleteTasks, gone)
	}
	if len(flow) > 0 {
		b.Queue(s.putTasks, flow, task, n, state, version, isGone, final, retention, created, since,
			updated, overdue, sweeps, fields, taken)
	}
	return nil
}

// encodeTask writes the fields of a task and what it has done; a tombstone has neither.
func encodeTask(d *turn.Task) (out [2]pgtype.Text, err error) {
	if d.Gone {
		return out, nil
	}
	fields := d.Fields
	if fields == nil {
		fields = map[string]any{}
	}
	text, err := value.Encode(fields)
	if err != nil {
		return out, err
	}
	taken, err := encodeTaken(d.Taken)
	for i, text := range [][]byte{text, taken} { // of a header that was no text
		out[i] = pgtype.Text{String: strings.ToValidUTF8(string(text), "\uFFFD"), Valid: true}
	}
	return out, err
}

func (s *storeSQL) writeHistory(b *pgx.Batch, t *turn.Batch) error {
	var n, version, goneN, goneVersion []int64
	var at []pgtype.Timestamptz
	var texts [7][]string
	for _, c := range t.History.Changes() {
		h := c.Now
		if h == nil {
			goneN, goneVersion = append(goneN, c.Key.Task), append(goneVersion, c.Key.Version)
			continue
		}
		n, version, at = append(n, h.Task), append(version, h.Version), append(at, stampOut(h.At))
		for i, text := range [...]string{h.Event, h.From, h.To, h.Note, h.Actor, h.Reason,
			h.Callback} {
			texts[i] = append(texts[i], recordText(text))
		}
	}
	if len(goneN) > 0 {
		b.Queue(s.deleteHistory, goneN, goneVersion)
	}
	if len(n) > 0 {
		b.Queue(s.putHistory, n, version, at, texts[0], texts[1], texts[2], texts[3], texts[4],
			texts[5], texts[6])
	}
	return nil
}

func (s *storeSQL) writeResources(b *pgx.Batch, t *turn.Batch) error {
	var kind, name, flow, task []string
	var fence, version []int64
	var freeing []int32
	var since []pgtype.Timestamptz
	for _, c := range t.Resources.Changes() {
		d := c.Now // resources stay
		kind, name = append(kind, recordText(d.Kind)), append(name, recordText(d.Name))
		flow, task = append(flow, recordText(d.Flow)), append(task, recordText(d.Task))
		fence, version = append(fence, d.Fence), append(version, d.Version)
		freeing, since = append(freeing, int32(d.Freeing)), append(since, stampOut(d.SinceAt))
	}
	if len(kind) > 0 {
		b.Queue(s.putResources, kind, name, fence, flow, task, freeing, since, version)
	}
	return nil
}

// writeRest keeps what people did and what was refused.
func (s *storeSQL) writeRest(b *pgx.Batch, t *turn.Batch) error {
	for _, c := range t.Audit.Changes() {
		d := c.Now
		b.Queue(s.putAudit, d.N, recordText(d.Target), stampOut(d.At), d.Action,
			recordText(d.Actor), recordText(d.Reason))
	}
	var gone []int64
	for _, c := range t.Rejected.Changes() {
		d := c.Now
		if d == nil {
			gone = append(gone, c.Key)
			continue
		}
		b.Queue(s.putRejected, d.ID, recordText(d.Source), d.Ring, stampOut(d.At),
			string(d.Outcome), recordText(d.Reason), recordText(d.Peer), d.Size, d.Meta, d.Body)
	}
	if len(gone) > 0 {
		b.Queue(s.deleteRejected, gone)
	}
	return nil
}

// count adds to the kept counters of a slot, in one order: two that add to the same ones don't wait
// for each other in a circle.
func (s *storeSQL) count(b *pgx.Batch, slot string, counted map[turn.CounterKey]int64) {
	var what, source, state, slots []string
	var n []int64
	keys := make([]turn.CounterKey, 0, len(counted))
	for k := range counted {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b turn.CounterKey) int {
		return cmp.Or(strings.Compare(a.Of, b.Of), strings.Compare(a.Source, b.Source),
			strings.Compare(a.State, b.State))
	})
	for _, k := range keys {
		what, source = append(what, k.Of), append(source, recordText(k.Source))
		state, slots = append(state, recordText(k.State)), append(slots, slot)
		n = append(n, counted[k])
	}
	if len(n) > 0 {
		b.Queue(s.addCounter, what, source, state, slots, n)
	}
}
