package turn

import (
	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Stored reads what the database holds, as of the last commit: nothing of the batch that asks. What
// it returns is the batch's own. Its errors end the batch.
type Stored interface {
	// Rows returns the first rows that a query selects, in the order for which it asks.
	Rows(q *RowQuery, limit int) ([]*Row, error)
	// RowsBySeq returns those of the rows that are there, in any order.
	RowsBySeq(seqs []int64) ([]*Row, error)
	// RowsByIdentity returns those of the rows that are there, in any order. Until the batch is
	// committed nobody else changes them.
	RowsByIdentity(k queue.Kind, ids []once.Identity) ([]*Row, error)
	// RowByID returns a row by its public id, the first 16 bytes of its identity; nil: there is
	// none.
	RowByID(k queue.Kind, id [16]byte) (*Row, error)
	// Lines says of the order keys of a lane who has them in hand, and who is first in line.
	Lines(lane string, keys []string) (map[string]Line, error)
	// CallbackSeq returns a number for a callback that is stored now: an even one above those of
	// all callbacks that were acknowledged.
	CallbackSeq() (int64, error)

	// Arrivals returns those of the arrivals that are there.
	Arrivals(keys []ArrivalKey) ([]*Arrival, error)
	// ArrivalsOf returns the arrivals of a row in their order, all or the conflicts.
	ArrivalsOf(row int64, conflicts bool) ([]*Arrival, error)

	// Tasks returns those of the tasks that are there.
	Tasks(keys []Pair) ([]*Task, error)
	// TasksBy returns the tasks with the earliest times in a field: those that have one, and that
	// are not later than by unless that is 0.
	TasksBy(field TaskTime, by Stamp, limit int) ([]*Task, error)
	// HistoryOf returns the keys of lines of the history of the task with number n.
	HistoryOf(n int64, limit int) ([]HistoryKey, error)

	// Resources returns those of the resources that are there.
	Resources(keys []Pair) ([]*Resource, error)
	// Owned returns the resources of tasks, those that are being freed included.
	Owned(tasks []Pair) ([]*Resource, error)

	// Ring returns the ids of a ring of refused messages, latest first.
	Ring(source, ring string) ([]int64, error)
}

// Line is what the database says of an order key, whatever the batch has changed: the row that
// somebody has in hand, and the first one in line; 0: none.
type Line struct{ Holder, Head int64 }

// TaskTime is a time of a task by which tasks are found.
type TaskTime int

// The times of tasks by which they are found.
const (
	ByOverdue TaskTime = iota
	BySweep
)

func (f TaskTime) of(d *Task) Stamp {
	if f == BySweep {
		return d.SweepAt
	}
	return d.OverdueAt
}
