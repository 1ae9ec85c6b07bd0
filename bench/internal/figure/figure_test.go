package figure

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/bench/internal/peer"
)

func TestEachRowBelongsToAFigureAndStandsOnce(t *testing.T) {
	figures, rows := map[string]bool{}, map[string]bool{}
	for _, f := range Figures() {
		figures[f.Name] = true
	}
	for _, r := range Rows() {
		name, _, _ := strings.Cut(r.ID, ".")
		if !figures[name] || rows[r.ID] {
			t.Errorf("row %s: its figure is known: %v, it stands twice: %v", r.ID, figures[name],
				rows[r.ID])
		}
		rows[r.ID] = true
	}
}

func TestARoundOfTheMiddlewareHasAValueForEachRow(t *testing.T) {
	got, err := middlewareRound(t.Context(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, r := range Rows() {
		name, ok := strings.CutPrefix(r.ID, "middleware.")
		if !ok {
			continue
		}
		rows++
		if _, ok := got[name]; !ok {
			t.Errorf("row %s has no value", r.ID)
		}
	}
	if len(got) != rows {
		t.Errorf("%d values, want %d: %v", len(got), rows, got)
	}
}

func TestWrongAnswersOfAMiddlewareAreFound(t *testing.T) {
	bare := http.HandlerFunc(peer.Orders)
	guarded, err := guard(bare)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		handler http.Handler
		keys    keys
		bad     bool
	}{
		"right":                {guarded, sameKey, false},
		"right first requests": {guarded, newKey, false},
		"nothing is replayed":  {bare, sameKey, true},
		"another answer": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
		}), noKey, true},
	} {
		var all callers
		call := all.to(c.handler, c.keys)
		call()
		call()
		if err := all.wrong(); (err != nil) != c.bad {
			t.Errorf("%s: error %v, want one: %v", name, err, c.bad)
		}
	}
}

func TestATransferChecksWhatCame(t *testing.T) {
	o, err := peer.Open(t.Context(), "origin", "", "")
	if err != nil {
		t.Fatal(err)
	}
	wrong := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, "1000001") // one byte too many, or the number of too many
	})
	for _, c := range []struct {
		handler http.Handler
		bad     bool
	}{{o.Handler, false}, {wrong, true}} {
		s := httptest.NewServer(c.handler)
		defer s.Close()
		addr := strings.TrimPrefix(s.URL, "http://")
		for _, tr := range []transfer{
			{"upload", http.MethodPost, true, false}, {"answer", http.MethodGet, false, true},
		} {
			if err := tr.run(t.Context(), addr, 1_000_000); (err != nil) != c.bad {
				t.Errorf("%s: error %v, want one: %v", tr.row, err, c.bad)
			}
			if err := tr.run(t.Context(), addr, 1); (err != nil) != c.bad {
				t.Errorf("%s of one byte: error %v, want one: %v", tr.row, err, c.bad)
			}
		}
	}
}

func TestClaimsOfASmallStoreAreMeasured(t *testing.T) {
	b := &Bench{Dir: t.TempDir(), Phase: 100 * time.Millisecond, Log: io.Discard}
	got, err := b.sqliteClaims(t.Context(), fewRecords)
	if err != nil || got.rate <= 0 || got.cpu <= 0 {
		t.Errorf("%+v, error %v", got, err)
	}
}
