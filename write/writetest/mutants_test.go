package writetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// mutants are faults that writers of this kind have had, with cases that have to notice them.
var mutants = map[string]struct {
	cases []string
	write func(m *mutant, ctx context.Context, e write.Event) (write.Result, error)
}{
	"events are forgotten": {
		[]string{"Repeat/IsADuplicate", "K03", "B06/RepeatedIncrements", "Random"},
		func(m *mutant, ctx context.Context, e write.Event) (write.Result, error) {
			return m.again(ctx, e)
		},
	},
	"a conflict overwrites": {
		[]string{"Repeat/WithAnotherContentIsAConflict", "Batch/DuplicatesOfEachOther", "Random"},
		func(m *mutant, ctx context.Context, e write.Event) (write.Result, error) {
			r, err := m.Model.Write(ctx, e)
			if r.Outcome == write.Conflict {
				return m.again(ctx, e)
			}
			return r, err
		},
	},
	"what is stale is forgotten": {
		[]string{"Newer/Numbers", "Newer/Transition", "Random"},
		func(m *mutant, ctx context.Context, e write.Event) (write.Result, error) {
			r, err := m.Model.Write(ctx, e)
			if r.Outcome == write.Stale {
				m.forget(e.ID)
			}
			return r, err
		},
	},
	"ids are compared without their case": {
		[]string{"H06/IDsAndKeys"},
		func(m *mutant, ctx context.Context, e write.Event) (write.Result, error) {
			e.ID = strings.ToLower(e.ID)
			return m.Model.Write(ctx, e)
		},
	},
	"keys are compared without spaces at their ends": {
		[]string{"H06/IDsAndKeys"},
		func(m *mutant, ctx context.Context, e write.Event) (write.Result, error) {
			if key, isText := e.Key.(string); isText && key != "" {
				e.Key = strings.TrimRight(key, " ")
			}
			return m.Model.Write(ctx, e)
		},
	},
	"a writer looks first and writes then": {
		[]string{"K03"}, // whose events have many writers each
		func(m *mutant, ctx context.Context, e write.Event) (write.Result, error) {
			if m.knows(e.ID) {
				return m.Model.Write(ctx, e)
			}
			looked, _ := m.looked.LoadOrStore(e.ID, new(atomic.Int64))
			n := looked.(*atomic.Int64)
			for n.Add(1); n.Load() < 2; {
				runtime.Gosched() // until another one has looked, too
			}
			r, err := m.again(ctx, e)
			_, _ = m.Model.Write(ctx, write.Event{
				ID: e.ID, In: e.In, Key: e.Key,
				Change: write.Upsert{SetOnInsert: write.Fields{"n": 0}},
			})
			return r, err
		},
	},
	"a refused transition is remembered": {
		[]string{"Transition/ComesAgainWhenItsTimeHasCome", "Random"},
		func(m *mutant, ctx context.Context, e write.Event) (write.Result, error) {
			r, err := m.Model.Write(ctx, e)
			if errors.Is(err, once.ErrState) {
				m.remember(e)
			}
			return r, err
		},
	},
	"an increment of a missing member is lost": {
		[]string{"Increment/CountsFromZero", "Random"},
		func(m *mutant, ctx context.Context, e write.Event) (write.Result, error) {
			ch, isAdd := e.Change.(write.Increment)
			if doc, _ := m.Read(e.In, e.Key); isAdd && doc == nil && m.ok(e) {
				e.Change = write.Increment{By: write.Fields{"n": 0}, SetOnInsert: ch.SetOnInsert}
			}
			return m.Model.Write(ctx, e)
		},
	},
	"the numbers of a repeat are those of now": {
		[]string{"Batch/Large", "Random"},
		func(m *mutant, ctx context.Context, e write.Event) (write.Result, error) {
			r, err := m.Model.Write(ctx, e)
			if doc, _ := m.Read(e.In, e.Key); r.Outcome == write.Duplicate && r.Numbers != nil {
				r.Numbers = write.Fields{"n": doc["n"]}
			}
			return r, err
		},
	},
	"a wrong event of a batch ends it": {
		[]string{"Batch/AResultForEach", "Random"}, nil,
	},
}

// mutant is the model with a fault.
type mutant struct {
	*Model
	write func(m *mutant, ctx context.Context, e write.Event) (write.Result, error)
	n     atomic.Int64
	// looked counts who looked for an event.
	looked sync.Map
}

func (m *mutant) Write(ctx context.Context, e write.Event) (write.Result, error) {
	if m.write == nil {
		return m.Model.Write(ctx, e)
	}
	return m.write(m, ctx, e)
}

func (m *mutant) WriteAll(ctx context.Context, events []write.Event) ([]write.Result, error) {
	if err := write.CheckBatch(events); err != nil {
		return nil, err
	}
	results := make([]write.Result, len(events))
	for i, e := range events {
		r, err := m.Write(ctx, e)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.Err = err
		if results[i] = r; err != nil && m.write == nil {
			break
		}
	}
	return results, nil
}

// again writes an event as another one.
func (m *mutant) again(ctx context.Context, e write.Event) (write.Result, error) {
	if m.ok(e) {
		e.ID = fmt.Sprint("again ", m.n.Add(1))
	}
	return m.Model.Write(ctx, e)
}

func (m *mutant) ok(e write.Event) bool {
	_, err := m.targets.Check(e)
	return err == nil
}

func (m *mutant) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.events, id)
}

func (m *mutant) knows(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.events[id]
	return found
}

func (m *mutant) remember(e write.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	digest, _ := write.Digest(e)
	m.events[e.ID] = write.Record{Digest: digest, First: write.First{In: e.In, Key: e.Key}}
}

// mutantName names the one that TestMutant runs.
const mutantName = "ONCE_TEST_WRITE_MUTANT"

// TestMutant is no test by itself: the next one runs it in a process of its own, where it fails.
func TestMutant(t *testing.T) {
	fault := os.Getenv(mutantName)
	if fault == "" {
		return
	}
	Run(t, func(*testing.T) Harness {
		m := &mutant{Model: NewModel(), write: mutants[fault].write}
		return Harness{
			Writer: m, Second: m,
			Read: func(_ *testing.T, in string, key any) (write.Fields, bool) {
				return m.Read(in, key)
			},
		}
	}, mutants[fault].cases...)
}

func TestTheSuiteNoticesFaults(t *testing.T) {
	t.Parallel()
	for fault, m := range mutants {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMutant$")
		cmd.Env = append(os.Environ(), mutantName+"="+fault)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("%s: not noticed", fault)
		}
		for _, c := range m.cases {
			if !strings.Contains(string(out), "--- FAIL: TestMutant/"+c) {
				t.Errorf("%s: not noticed by %s", fault, c)
			}
		}
	}
}
