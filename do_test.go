package once_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once"
)

func newLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

type receipt struct {
	ID     string            `json:"id"`
	Amount int64             `json:"amount"`
	Tags   []string          `json:"tags,omitempty"`
	Meta   map[string]string `json:"meta"`
	Next   *receipt          `json:"next"`
}

func TestDoRunsOnce(t *testing.T) {
	g := newGuard(t, memory(t), once.Config{})
	want := receipt{
		ID: "r\x001", Amount: math.MaxInt64, Tags: []string{"é", ""},
		Meta: map[string]string{"a": "b"}, Next: &receipt{ID: "2"},
	}
	runs := 0
	pay := func(context.Context) (receipt, error) { runs++; return want, nil }
	for n := range 4 {
		r, err := once.Do(t.Context(), g, operation(t, "a"), pay)
		if err != nil || r.NotStored != nil || r.Replayed != (n > 0) {
			t.Fatalf("call %d: %+v, %v", n, r, err)
		}
		if r.Value.ID != want.ID || r.Value.Amount != want.Amount || r.Value.Next.ID != "2" ||
			len(r.Value.Tags) != 2 || r.Value.Meta["a"] != "b" {
			t.Errorf("call %d: %+v", n, r.Value)
		}
	}
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
}

// failing are the ways in which work can end without a result.
var failing = map[string]func(context.Context) (int, error){
	"error":  func(context.Context) (int, error) { return 0, errBroken },
	"panic":  func(context.Context) (int, error) { panic(errBroken) },
	"goexit": func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
}

var errBroken = errors.New("broken")

// attempt calls Do in a goroutine of its own and returns what came out of it.
func attempt(
	t *testing.T, g *once.Guard, fn func(context.Context) (int, error),
) (r once.Result[int], panicked any, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		r, err = once.Do(t.Context(), g, operation(t, "a"), fn)
	}()
	<-done
	return r, panicked, err
}

func ran(n *int) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { *n++; return 7, nil }
}

func TestK19_WorkThatFailsIsLost(t *testing.T) {
	for name, fn := range failing {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				retry := newGuard(t, memory(t), once.Config{})
				_, panicked, err := attempt(t, retry, fn)
				switch name {
				case "error":
					if err != errBroken {
						t.Errorf("returned %v", err)
					}
				case "panic":
					if panicked != errBroken {
						t.Errorf("panicked with %v", panicked)
					}
				}
				w := begin(t, retry, "a") // at once, not after the lease
				if !w.Grant().Takeover {
					t.Errorf("granted %+v", w.Grant())
				}
				if err := w.Release(); err != nil {
					t.Fatal(err)
				}

				hold := newGuard(t, memory(t), once.Config{OnUnknown: once.Hold})
				_, _, _ = attempt(t, hold, fn)
				runs := 0
				_, _, err = attempt(t, hold, ran(&runs))
				if !errors.Is(err, once.ErrUnknown) || runs != 0 {
					t.Errorf("under hold it ran %d times, %v", runs, err)
				}
			})
		})
	}
}

func TestWorkWithoutEffectFreesTheKey(t *testing.T) {
	g := newGuard(t, memory(t), once.Config{OnUnknown: once.Hold})
	_, _, err := attempt(t, g, func(context.Context) (int, error) {
		return 0, once.NoEffect(errBroken)
	})
	if !errors.Is(err, errBroken) || !once.HadNoEffect(err) || err.Error() != "broken" {
		t.Errorf("returned %v", err)
	}
	runs := 0
	r, _, err := attempt(t, g, ran(&runs))
	if err != nil || r.Value != 7 || r.Replayed || runs != 1 {
		t.Errorf("then %+v, %v", r, err)
	}
	if once.NoEffect(nil) != nil || once.HadNoEffect(errBroken) || once.HadNoEffect(nil) {
		t.Error("what is marked is not what was marked")
	}
}

func TestALossThatIsNotStoredIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		gone := errors.New("store is gone")
		f.complete = func(context.Context, once.Grant, once.Outcome) error { return gone }
		f.release = func(context.Context, once.Grant) error { return gone }
		g := newGuard(t, f, once.Config{})
		_, _, err := attempt(t, g, failing["error"])
		if !errors.Is(err, errBroken) || !errors.Is(err, gone) {
			t.Errorf("returned %v", err)
		}
		time.Sleep(time.Minute)
		_, _, err = attempt(t, g, func(context.Context) (int, error) {
			return 0, once.NoEffect(errBroken)
		})
		if !errors.Is(err, errBroken) || !errors.Is(err, gone) || !once.HadNoEffect(err) {
			t.Errorf("returned %v", err)
		}
	})
}

// angry can't be written as JSON.
type angry struct{}

func (angry) MarshalJSON() ([]byte, error) { panic(errBroken) }

func TestAResultThatCantBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memory(t), once.Config{OnUnknown: once.Hold})
		inf := func(context.Context) (float64, error) { return math.Inf(1), nil }
		r, err := once.Do(t.Context(), g, operation(t, "a"), inf)
		if err != nil || !math.IsInf(r.Value, 1) || r.NotStored == nil {
			t.Errorf("%+v, %v", r, err)
		}
		_, err = once.Do(t.Context(), g, operation(t, "a"), inf)
		if !errors.Is(err, once.ErrNotKept) {
			t.Errorf("then %v", err)
		}
		func() {
			defer func() {
				if recover() != errBroken {
					t.Error("the panic of the encoding was swallowed")
				}
			}()
			_, _ = once.Do(t.Context(), g, operation(t, "b"),
				func(context.Context) (angry, error) { return angry{}, nil })
		}()
		_, err = g.Begin(t.Context(), operation(t, "b"))
		if !errors.Is(err, once.ErrUnknown) { // and not in flight until the longest work ends
			t.Errorf("after the panic of the encoding: %v", err)
		}
	})
}

func TestR15_AValueThatIsNotStoredIsTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.complete = func(context.Context, once.Grant, once.Outcome) error {
			return once.ErrUnavailable
		}
		g := newGuard(t, f, once.Config{OnUnknown: once.Hold})
		runs := 0
		r, _, err := attempt(t, g, ran(&runs))
		if err != nil || r.Value != 7 || r.Replayed ||
			!errors.Is(r.NotStored, once.ErrUnavailable) {
			t.Errorf("%+v, %v", r, err)
		}
		time.Sleep(time.Minute)
		_, _, err = attempt(t, g, ran(&runs))
		if !errors.Is(err, once.ErrUnknown) || runs != 1 {
			t.Errorf("then %v, it ran %d times", err, runs)
		}
	})
}

func TestR05_AValueThatIsTooLargeIsNotRunAgain(t *testing.T) {
	g := newGuard(t, memory(t), once.Config{})
	runs := 0
	fn := func(context.Context) ([]byte, error) { runs++; return make([]byte, 5000), nil }
	r, err := once.Do(t.Context(), g, operation(t, "a"), fn)
	if err != nil || len(r.Value) != 5000 || !errors.Is(r.NotStored, once.ErrTooLarge) {
		t.Errorf("%d bytes, not stored: %v, %v", len(r.Value), r.NotStored, err)
	}
	_, err = once.Do(t.Context(), g, operation(t, "a"), fn)
	if !errors.Is(err, once.ErrNotKept) || runs != 1 {
		t.Errorf("then %v, it ran %d times", err, runs)
	}
}

func TestAResultThatCantBeReadIsNotRunAgain(t *testing.T) {
	g := newGuard(t, memory(t), once.Config{})
	for _, data := range []string{"", "{", `"text"`, "1.5", "[1]"} {
		w := begin(t, g, "key"+data)
		if err := w.Complete(once.Outcome{Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
		runs := 0
		_, err := once.Do(t.Context(), g, operation(t, "key"+data), ran(&runs))
		if !errors.Is(err, once.ErrCorrupt) || runs != 0 {
			t.Errorf("%q: %v, it ran %d times", data, err, runs)
		}
	}
}

func TestDoesWorkUnderTheWorksContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		g := newGuard(t, memory(t), once.Config{MaxWork: 20 * second})
		ctx := context.WithValue(t.Context(), key{}, "value")
		start := time.Now()
		_, err := once.Do(ctx, g, operation(t, "a"), func(ctx context.Context) (int, error) {
			if ctx.Value(key{}) != "value" {
				t.Error("the caller's values are gone")
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || time.Since(start) != 20*second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}
