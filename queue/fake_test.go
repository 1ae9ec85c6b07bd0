package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekit/once"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRow is a row of the fake store.
type fakeRow struct {
	row   Row
	due   time.Time
	until time.Time // end of the lease
	set   *Settlement
}

// fakeStore keeps rows in memory and does what the tests tell it. It judges leases by time.Now,
// which is the bubble's clock.
type fakeStore struct {
	mu    sync.Mutex
	rows  []*fakeRow
	calls map[string][]time.Time
	asked []LeaseRequest

	leaseErr, settleErr func() error
	renew               func([]Grant) []error
	sweep               func(limit int) (int, error)
}

func newFake(rows int, lane string) *fakeStore {
	s := &fakeStore{calls: map[string][]time.Time{}}
	s.add(rows, lane)
	return s
}

func (s *fakeStore) add(n int, lane string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.rows = append(s.rows, &fakeRow{row: Row{Seq: int64(len(s.rows) + 1), Kind: Callback,
			Lane: lane, State: Pending}})
	}
}

func (s *fakeStore) call(name string) { s.calls[name] = append(s.calls[name], time.Now()) }

func (s *fakeStore) Append(context.Context, []Arrival) ([]Receipt, error) {
	return nil, errors.New("not in these tests")
}

func (s *fakeStore) Lease(_ context.Context, r LeaseRequest) (got Leased, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call("lease " + r.Lane)
	s.asked = append(s.asked, r)
	if s.leaseErr != nil {
		if err := s.leaseErr(); err != nil {
			return Leased{}, err
		}
	}
	now := time.Now()
	for _, f := range s.rows {
		if f.row.State == Running && f.until.Before(now) {
			f.row.State = Pending
		}
		if f.row.Lane != r.Lane || f.row.State != Pending || r.Fresh && f.row.Attempt > 0 {
			continue
		}
		if f.due.After(now) {
			if got.NextAt.IsZero() || f.due.Before(got.NextAt) {
				got.NextAt = f.due
			}
			continue
		}
		if len(got.Rows) == r.Max {
			got.More = true
			break
		}
		f.row.State, f.until = Running, now.Add(r.For)
		f.row.Fence++
		f.row.Attempt++
		got.Rows = append(got.Rows, f.row)
	}
	return got, nil
}

func (s *fakeStore) Renew(_ context.Context, grants []Grant, d time.Duration) []error {
	s.mu.Lock()
	s.call("renew")
	fn := s.renew
	s.mu.Unlock()
	if fn != nil {
		return fn(grants)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(grants))
	for i, g := range grants {
		if f := s.rows[g.Seq-1]; s.owns(f, g) {
			f.until = time.Now().Add(d)
		} else {
			errs[i] = once.ErrLeaseLost
		}
	}
	return errs
}

func (s *fakeStore) owns(f *fakeRow, g Grant) bool {
	return f.row.State == Running && f.row.Fence == g.Fence && !f.until.Before(time.Now())
}

func (s *fakeStore) Settle(ctx context.Context, sets []Settlement) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call("settle")
	errs := make([]error, len(sets))
	for i, set := range sets {
		errs[i] = s.settleOne(ctx, set)
	}
	return errs
}

func (s *fakeStore) settleOne(ctx context.Context, set Settlement) error {
	if s.settleErr != nil {
		if err := s.settleErr(); err != nil {
			return err
		}
	}
	f := s.rows[set.Grant.Seq-1]
	if !s.owns(f, set.Grant) {
		return once.ErrLeaseLost
	}
	if set.Commit != nil {
		if err := set.Commit(ctx, nil); err != nil {
			return &CommitError{err}
		}
	}
	f.row.State, f.set, f.due = set.State, &set, time.Now().Add(set.RetryIn)
	return nil
}

func (s *fakeStore) Sweep(_ context.Context, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call("sweep")
	if s.sweep == nil {
		return 0, nil
	}
	return s.sweep(limit)
}

// times returns when a call was made, as the time since the beginning.
func (s *fakeStore) times(name string, begun time.Time) (out []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.calls[name] {
		out = append(out, t.Sub(begun))
	}
	return out
}

func (s *fakeStore) count(state State) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.rows {
		if f.row.State == state {
			n++
		}
	}
	return n
}

func (s *fakeStore) settled(seq int) Settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.rows[seq-1].set; set != nil {
		return *set
	}
	return Settlement{}
}

// belled is a fake store that rings.
type belled struct {
	*fakeStore
	bell chan struct{}
}

func (b belled) Notify(string) <-chan struct{} { return b.bell }

// running runs a dispatcher of one worker and returns the function that ends it and waits.
func running(t *testing.T, store Store, w Worker, cfg Config) (stop func()) {
	t.Helper()
	if w.Lane == "" {
		w.Lane = "work"
	}
	d, err := NewDispatcher(store, []Worker{w}, nil, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return background(t, d)
}

func background(t *testing.T, d *Dispatcher) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

var errAway = fmt.Errorf("away: %w", once.ErrUnavailable)

func finished(context.Context, Row) Settlement { return Settlement{State: Done} }
