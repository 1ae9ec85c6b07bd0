package oncepg

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// stampIn reads a time, and NULL as none.
type stampIn turn.Stamp

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (s *stampIn) ScanTimestamptz(v pgtype.Timestamptz) error {
	if *s = 0; v.Valid {
		*s = stampIn(v.Time.UnixMilli())
	}
	return nil
}

func into(s *turn.Stamp) *stampIn { return (*stampIn)(s) }

// stampOut is a time as it is written; none is NULL.
func stampOut(s turn.Stamp) pgtype.Timestamptz {
	if s == 0 {
		return pgtype.Timestamptz{}
	}
	return pgtype.Timestamptz{Time: time.UnixMilli(int64(s)), Valid: true}
}

// scanned calls scan for each row of an answer.
func scanned[T any](rows pgx.Rows, err error, scan func(pgx.Rows) (*T, error)) ([]*T, error) {
	if err != nil {
		return nil, turn.Fault(err)
	}
	defer rows.Close()
	var out []*T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, turn.Fault(err)
		}
		out = append(out, v)
	}
	return out, turn.Fault(rows.Err())
}

// scanRow reads rowColumns, and what is asked for beside.
func scanRow(rows pgx.Rows, more ...any) (*turn.Row, error) {
	r := &turn.Row{}
	var identity, fingerprint, attempts, accepted []byte
	var phase string
	dest := []any{&r.Seq, &identity, &fingerprint, &phase, &r.Lane, &r.OrderKey, &r.InLine,
		&r.Blocks, &r.LimitPassed, &r.Frees, &r.Acted, &r.Attempt, &r.Lost, &r.Revision, &r.Fence,
		&r.Duplicates, &r.Conflicts, &r.Newest, &r.RetentionMS, &r.KeepBodyMS,
		into(&r.ReceivedAt), into(&r.LastAt), into(&r.NextAt), into(&r.WaitUntil),
		into(&r.StartedAt), into(&r.FinishedAt), into(&r.ExpiresAt), into(&r.SweepAt),
		into(&r.LeaseUntil), &r.Node, &r.Source, &r.Event, &r.Flow, &r.Task, &r.Key, &r.Resource,
		&r.Cause, &r.Peer, &r.TraceParent, &r.TraceState, &r.Error, (*string)(&r.DeadCause),
		&r.Waits, &attempts, &accepted}
	if err := rows.Scan(append(dest, more...)...); err != nil {
		return nil, err
	}
	if len(identity) != len(r.Identity) ||
		fingerprint != nil && len(fingerprint) != len(r.Fingerprint) {
		return nil, fmt.Errorf("row %d: %w", r.Seq, once.ErrCorrupt)
	}
	copy(r.Identity[:], identity)
	copy(r.Fingerprint[:], fingerprint)
	r.SetPhase(turn.Phase(phase))
	for _, text := range []*string{&r.Lane, &r.OrderKey, &r.Node, &r.Source, &r.Event, &r.Flow,
		&r.Task, &r.Resource, &r.Cause, &r.Peer, &r.TraceParent, &r.TraceState, &r.Error} {
		*text = plainText(*text)
	}
	plainTexts(r.Key)
	plainTexts(r.Waits)
	if err := fromJSON(attempts, &r.Attempts); err != nil {
		return nil, fmt.Errorf("row %d: %w: %w", r.Seq, once.ErrCorrupt, err)
	}
	if err := fromJSON(accepted, &r.Accepted); err != nil {
		return nil, fmt.Errorf("row %d: %w: %w", r.Seq, once.ErrCorrupt, err)
	}
	return r, nil
}

// scanHead reads a row without what can be long.
func scanHead(rows pgx.Rows) (*turn.Row, error) { return scanRow(rows) }

func scanWholeRow(rows pgx.Rows) (*turn.Row, error) {
	var meta, body []byte
	r, err := scanRow(rows, &meta, &body)
	if err == nil {
		r.Meta, r.Body = meta, body
	}
	return r, err
}

func plainTexts(list []string) {
	for i := range list {
		list[i] = plainText(list[i])
	}
}

// fromJSON reads what toJSON wrote; NULL is nothing.
func fromJSON(text []byte, v any) error {
	if text == nil {
		return nil
	}
	return json.Unmarshal(text, v)
}

// toJSON writes a list; an empty one is NULL.
func toJSON[T any](list []T) (pgtype.Text, error) {
	if len(list) == 0 {
		return pgtype.Text{}, nil
	}
	text, err := json.Marshal(list)
	return pgtype.Text{String: string(text), Valid: true}, err
}

// textsOut is a list of texts as the text of an array; none is NULL.
func textsOut(list []string) pgtype.Text {
	if list == nil {
		return pgtype.Text{}
	}
	return pgtype.Text{String: scopeText(list), Valid: true}
}

// scanTask reads taskColumns, and what is asked for beside.
func scanTask(rows pgx.Rows, more ...any) (*turn.Task, error) {
	d := &turn.Task{}
	dest := []any{&d.N, &d.Flow, &d.Task, &d.State, &d.Version, &d.Gone, &d.Final, &d.RetentionMS,
		into(&d.CreatedAt), into(&d.SinceAt), into(&d.UpdatedAt), into(&d.OverdueAt),
		into(&d.SweepAt)}
	if err := rows.Scan(append(dest, more...)...); err != nil {
		return nil, err
	}
	d.Flow, d.Task, d.State = plainText(d.Flow), plainText(d.Task), plainText(d.State)
	return d, nil
}

func scanWholeTask(rows pgx.Rows) (*turn.Task, error) {
	var fields, taken []byte
	d, err := scanTask(rows, &fields, &taken)
	if err != nil {
		return nil, err
	}
	if d.Fields, err = decodeObject(fields); err == nil {
		d.Taken, err = decodeTaken(taken)
	}
	if err != nil {
		return nil, fmt.Errorf("read task %s/%s: %w: %w", d.Flow, d.Task, once.ErrCorrupt, err)
	}
	return d, nil
}

func decodeObject(text []byte) (map[string]any, error) {
	if text == nil {
		return nil, nil
	}
	v, err := value.Decode(text, value.Limits{Depth: value.MaxDepth})
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%T where an object was written", v)
	}
	return m, nil
}

// encodeTaken writes what a task has done.
func encodeTaken(m map[string]queue.Taken) ([]byte, error) {
	out := make(map[string]any, len(m))
	for event, taken := range m {
		one := map[string]any{"n": taken.Count}
		if taken.Newer != nil {
			one["newer"] = taken.Newer
		}
		out[event] = one
	}
	return value.Encode(out)
}

func decodeTaken(text []byte) (map[string]queue.Taken, error) {
	m, err := decodeObject(text)
	if err != nil || m == nil {
		return nil, err
	}
	out := make(map[string]queue.Taken, len(m))
	for event, e := range m {
		one, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("taken %s: %T where an object was written", event, e)
		}
		n, ok := one["n"].(int64)
		if !ok {
			return nil, fmt.Errorf("taken %s: no count", event)
		}
		out[event] = queue.Taken{Count: n, Newer: one["newer"]}
	}
	return out, nil
}

func scanResource(rows pgx.Rows) (*turn.Resource, error) {
	d := &turn.Resource{}
	err := rows.Scan(&d.Kind, &d.Name, &d.Fence, &d.Flow, &d.Task, &d.Freeing, into(&d.SinceAt),
		&d.Version)
	d.Kind, d.Name = plainText(d.Kind), plainText(d.Name)
	d.Flow, d.Task = plainText(d.Flow), plainText(d.Task)
	return d, err
}

func scanArrival(rows pgx.Rows) (*turn.Arrival, error) {
	d := &turn.Arrival{}
	var fingerprint []byte
	err := rows.Scan(&d.Row, &d.N, into(&d.At), (*string)(&d.Outcome), &d.Peer, &d.Accepted,
		&fingerprint, &d.Meta, &d.Body)
	if err == nil && fingerprint != nil && len(fingerprint) != len(d.Fingerprint) {
		err = fmt.Errorf("arrival %d of row %d: %w", d.N, d.Row, once.ErrCorrupt)
	}
	copy(d.Fingerprint[:], fingerprint)
	d.Peer = plainText(d.Peer)
	return d, err
}

// mark is what an index has of a text of any length.
func mark(text string) int64 {
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// marksOut are the marks of texts as the text of an array; none is NULL.
func marksOut(list []string) pgtype.Text {
	if len(list) == 0 {
		return pgtype.Text{}
	}
	text := []byte{'{'}
	for i, s := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, mark(s), 10)
	}
	return pgtype.Text{String: string(append(text, '}')), Valid: true}
}
