package oncesqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/powercut"
)

// resolveOf is a decision of a person.
func resolveOf(t *testing.T, r *Records, name string, d once.Decision) error {
	return r.Resolve(t.Context(), identityOf(name), once.Resolution{Decision: d,
		Outcome: once.Outcome{Data: []byte("a person's")}})
}

func TestNoStepOfARecordIsAnsweredBeforeItsSync(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	r := s.Records()
	grants := map[string]once.Grant{}
	for _, name := range []string{"to complete", "to release", "to renew", "to lose", "to hold",
		"to answer", "to run again", "to free"} {
		grants[name] = mustClaim(t, r, claimOf(name))
	}
	lose := func(name string) error {
		return r.Complete(t.Context(), grants[name], once.Outcome{Kind: once.Unknown})
	}
	if err := errors.Join(lose("to hold"), lose("to answer"), lose("to run again")); err != nil {
		t.Fatal(err)
	}
	mustComplete(t, r, grants["to free"], "done")
	claim := func(c once.Claim) error {
		_, err := r.Claim(t.Context(), c)
		return err
	}
	holding := claimOf("to hold")
	holding.OnUnknown = once.Hold
	steps := map[string]func() error{
		"claim":     func() error { return claim(claimOf("new")) },
		"renew":     func() error { return r.Renew(t.Context(), grants["to renew"], time.Minute) },
		"release":   func() error { return r.Release(t.Context(), grants["to release"]) },
		"lose":      func() error { return lose("to lose") },
		"answer":    func() error { return resolveOf(t, r, "to answer", once.AnswerWith) },
		"run again": func() error { return resolveOf(t, r, "to run again", once.RunAgain) },
		"free":      func() error { return resolveOf(t, r, "to free", once.ReleaseDone) },
		"complete": func() error {
			return r.Complete(t.Context(), grants["to complete"], once.Outcome{})
		},
		"hold": func() error {
			if err := claim(holding); !errors.Is(err, once.ErrUnknown) {
				return err
			}
			return nil
		},
	}
	for name, step := range steps {
		syncing, goOn := make(chan string), make(chan struct{})
		d.BeforeSync(func(file string, _ int) {
			select {
			case syncing <- file:
				<-goOn
			case <-goOn:
			}
		})
		answered := make(chan error, 1)
		go func() { answered <- step() }()
		select {
		case file := <-syncing:
			if file != "/once.db-wal" {
				t.Errorf("%s: the first sync is of %s", name, file)
			}
		case err := <-answered:
			t.Fatalf("%s was answered (%v) without a sync", name, err)
		}
		select {
		case err := <-answered:
			t.Errorf("%s was answered (%v) before its sync", name, err)
			answered <- err
		case <-time.After(20 * time.Millisecond):
		}
		close(goOn)
		if err := <-answered; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		d.BeforeSync(nil)
	}
	checkFile(t, s)
}

func TestAReplayOfWhatIsDurableNeedsNoSync(t *testing.T) {
	d := powercut.NewDisk(1)
	r := openAt(t, onDisk(t, d)).Records()
	mustComplete(t, r, mustClaim(t, r, claimOf("a")), "done")
	goOn := make(chan struct{})
	d.BeforeSync(func(string, int) { <-goOn })
	defer close(goOn)
	for range 10 { // each would wait for ever
		wantReplay(t, r, "a", "done")
	}
}

// A replay may be told only of what is durable: while the completion waits for its flush the
// repeat waits too.
func TestAReplayIsNotToldBeforeItsOutcomeIsDurable(t *testing.T) {
	d := powercut.NewDisk(1)
	r := openAt(t, onDisk(t, d)).Records()
	g := mustClaim(t, r, claimOf("a"))
	held, release := holdSyncs(d)
	defer release()
	completed, replayed := make(chan error, 1), make(chan error, 1)
	go func() { completed <- r.Complete(t.Context(), g, once.Outcome{Data: []byte("done")}) }()
	<-held
	go func() {
		_, err := r.Claim(t.Context(), claimOf("a"))
		replayed <- err
	}()
	select {
	case err := <-replayed:
		t.Errorf("told %v while nothing was durable", err)
		replayed <- err
	case <-time.After(50 * time.Millisecond):
	}
	release()
	if err := <-completed; err != nil {
		t.Error(err)
	}
	var replay *once.ReplayError
	if err := <-replayed; !errors.As(err, &replay) {
		t.Errorf("told %v", err)
	}
}

func TestRecordsOnADiskThatFails(t *testing.T) {
	for name, fail := range faults {
		t.Run(name, func(t *testing.T) {
			d := powercut.NewDisk(1)
			s := openAt(t, onDisk(t, d))
			r := s.Records()
			mustComplete(t, r, mustClaim(t, r, claimOf("done")), "done")
			g := mustClaim(t, r, claimOf("in hand"))
			fail(d)
			wantReplay(t, r, "done", "done") // it is durable
			for step, err := range map[string]error{
				"complete": r.Complete(t.Context(), g, once.Outcome{Data: []byte("x")}),
				"release":  r.Release(t.Context(), g),
				"renew":    r.Renew(t.Context(), g, time.Minute),
				"resolve":  resolveOf(t, r, "done", once.ReleaseDone),
			} {
				if !errors.Is(err, once.ErrUnavailable) || errors.Is(err, once.ErrLeaseLost) {
					t.Errorf("%s: %v", step, err)
				}
			}
			_, err := r.Claim(t.Context(), claimOf("new"))
			if !errors.Is(err, once.ErrUnavailable) {
				t.Errorf("claim: %v", err)
			}
			d.Heal()
			if got := mustClaim(t, r, claimOf("new")); got.Attempt != 1 {
				t.Errorf("a claim that was never told: %+v", got)
			}
			mustComplete(t, r, g, "after")
			wantReplay(t, r, "in hand", "after")
			wantReplay(t, r, "done", "done")
			checkFile(t, s)
		})
	}
}

// A step whose flush failed was told to nobody and is in the file all the same. Whatever is
// answered later agrees with the file.
func TestRecordsAgreeWithTheFileAfterAFlushThatFailed(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	r := s.Records()
	fails := func(step string, do func() error) {
		t.Helper()
		d.LoseSync("/once.db-wal")
		if err := do(); !errors.Is(err, once.ErrUnavailable) {
			t.Fatalf("%s: %v", step, err)
		}
	}
	c := claimOf("a")
	fails("claim", func() error { _, err := r.Claim(t.Context(), c); return err })
	g := mustClaim(t, r, c) // asked again: the same grant
	if g.Attempt != 1 {
		t.Errorf("the claim asked for again: %+v", g)
	}
	fails("complete", func() error {
		return r.Complete(t.Context(), g, once.Outcome{Data: []byte("done")})
	})
	wantReplay(t, r, "a", "done")
	wantReplay(t, r, "a", "done")
	fails("free", func() error { return resolveOf(t, r, "a", once.ReleaseDone) })
	if next := mustClaim(t, r, claimOf("a")); next.Attempt != 2 || next.Takeover {
		t.Errorf("after it was freed: %+v", next)
	}
	checkFile(t, s)
}

// An outcome becomes durable, and is remembered, after a person has freed its record in a
// transaction whose flush then fails.
func TestAnOutcomeThatWasFreedIsForgottenThoughNobodyWasTold(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	r := s.Records()
	g := mustClaim(t, r, claimOf("a"))
	held, release := holdSyncs(d)
	defer release()
	completed, freed := make(chan error, 1), make(chan error, 1)
	go func() { completed <- r.Complete(t.Context(), g, once.Outcome{Data: []byte("done")}) }()
	<-held
	go func() { freed <- resolveOf(t, r, "a", once.ReleaseDone) }()
	until(t, "the second commit", func() bool { return len(s.flusher.committed) == 1 })
	d.BeforeSync(func(string, int) { d.LoseSync("/once.db-wal") })
	release()
	if err := <-completed; err != nil {
		t.Fatalf("complete: %v", err)
	}
	if err := <-freed; !errors.Is(err, once.ErrUnavailable) {
		t.Fatalf("free: %v", err)
	}
	d.BeforeSync(nil)
	mustClaim(t, r, claimOf("b")) // the store is well again
	if next := mustClaim(t, r, claimOf("a")); next.Attempt != 2 {
		t.Errorf("after it was freed: %+v", next)
	}
}

// While the disk hangs a step returns at the end of its context.
func TestAStepOnADiskThatHangsEndsWithItsContext(t *testing.T) {
	d := powercut.NewDisk(1)
	r := openAt(t, onDisk(t, d)).Records()
	mustClaim(t, r, claimOf("before"))
	held, release := holdSyncs(d)
	defer release()
	for range 3 { // in the flush, behind it, and in nobody's hands
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := r.Claim(ctx, claimOf("hangs"))
		if !errors.Is(err, once.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("claim: %v", err)
		}
		cancel()
	}
	<-held
	release()
	if _, err := r.Claim(t.Context(), claimOf("hangs")); !errors.Is(err, once.ErrInFlight) {
		t.Errorf("the claim that was made all the same: %v", err)
	}
}

func TestRecordsOfAClosedStoreAreUnavailable(t *testing.T) {
	s, r, _ := recordsAt(t, Config{})
	g := mustClaim(t, r, claimOf("a"))
	mustComplete(t, r, g, "done")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, claimed := r.Claim(t.Context(), claimOf("a"))
	_, shown := r.Record(t.Context(), g.Identity)
	_, listed := r.Records(t.Context(), once.RecordFilter{})
	_, swept := r.Sweep(t.Context(), 1)
	for step, err := range map[string]error{
		"claim": claimed, "record": shown, "records": listed, "sweep": swept,
		"complete": r.Complete(t.Context(), g, once.Outcome{}),
		"release":  r.Release(t.Context(), g),
		"renew":    r.Renew(t.Context(), g, time.Minute),
		"resolve":  resolveOf(t, r, "a", once.ReleaseDone),
	} {
		if !errors.Is(err, once.ErrUnavailable) {
			t.Errorf("%s: %v", step, err)
		}
	}
}

func TestARecordThatCanNotBeReadIsNeverRunAgain(t *testing.T) {
	damages := map[string]string{
		"a state that there isn't":   "state = 9",
		"a short fingerprint":        "fingerprint = x'01'",
		"a long fingerprint":         "fingerprint = cast(fingerprint || 'x' AS BLOB)",
		"a short owner":              "owner = x''",
		"no policy":                  "on_unknown = 2",
		"no such kind of outcome":    "kind = 7",
		"an outcome that was cut":    "outcome = substr(outcome, 2)",
		"an outcome with other bits": "outcome = cast('x' || substr(outcome, 2) AS BLOB)",
		"an outcome that is gone":    "outcome = NULL",
		"no fence":                   "fence = 0",
		"no end":                     "finished_at = 0",
		"no expiry":                  "expires_at = NULL",
	}
	for name, set := range damages {
		t.Run(name, func(t *testing.T) {
			s, r, clock := recordsAt(t, Config{})
			g := mustClaim(t, r, claimOf("a"))
			mustComplete(t, r, g, "done")
			mustWrite(t, s, "UPDATE records SET "+set)
			for range 2 {
				_, err := r.Claim(t.Context(), claimOf("a"))
				if !errors.Is(err, once.ErrCorrupt) || errors.Is(err, once.ErrUnavailable) {
					t.Errorf("claim: %v", err)
				}
				clock.advance(30 * time.Minute)
			}
			if _, err := r.Record(t.Context(), g.Identity); !errors.Is(err, once.ErrCorrupt) {
				t.Errorf("record: %v", err)
			}
			page, err := r.Records(t.Context(), once.RecordFilter{})
			if err != nil || len(page.Records) != 1 {
				t.Errorf("listed %+v, %v", page, err)
			}
			if got := scan(t, s, "SELECT attempt FROM records"); len(got) != 1 || got[0] != 1 {
				t.Errorf("attempts %v", got)
			}
		})
	}
}

func TestADiskThatIsFullRefusesClaimsAndKeepsRecords(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	r := s.Records()
	d.FailWrites(sqlite3.FULL)
	for range 3 {
		if _, err := r.Claim(t.Context(), claimOf("a")); !errors.Is(err, once.ErrUnavailable) {
			t.Fatalf("claim: %v", err)
		}
	}
	d.Heal()
	if g := mustClaim(t, r, claimOf("a")); g.Attempt != 1 {
		t.Errorf("grant %+v", g)
	}
	if n := r.Counts(); n[once.InFlight] != 1 {
		t.Errorf("counts %v", n)
	}
}

func TestABackupHasTheRecords(t *testing.T) {
	s, r, _ := recordsAt(t, Config{})
	mustComplete(t, r, mustClaim(t, r, claimOf("a")), "done")
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := Backup(t.Context(), s.cfg.Path, to, nil); err != nil {
		t.Fatal(err)
	}
	_, r, _ = recordsAt(t, Config{Path: to})
	wantReplay(t, r, "a", "done")
}
