package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
)

// silence is longer than the deadline of a piece: not a wait for something to happen.
const (
	pieceLimit = 300 * time.Millisecond
	silence    = 3 * pieceLimit
)

// quiet is an origin that says nothing for a while, before its answer's header or after a piece.
func quiet(t *testing.T) *origin {
	pause := func(r *http.Request) {
		select {
		case <-time.After(silence):
		case <-r.Context().Done():
		}
	}
	return newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/before" {
			pause(r)
			_, _ = io.WriteString(w, "done")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		pause(r) // the end that follows is nothing but the last chunk
	})
}

func (s *service) readsQuiet() {
	s.t.Helper()
	for path, want := range map[string]string{"/before": "done", "/within": "data: 1\n\n"} {
		res, err := s.client.Get(s.url + path)
		if err != nil {
			s.t.Errorf("%s: %v", path, err)
			continue
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(b) != want {
			s.t.Errorf("%s over HTTP/%d: %q, %v, want %q", path, res.ProtoMajor, b, err, want)
		}
	}
}

func TestGateway_AServiceMayBeSilentForLongerThanAClientHasToTakeAPiece(t *testing.T) {
	t.Parallel()
	limits := "limits: {idle_timeout: " + pieceLimit.String() + "}\n"
	routes := gatewayTo(quiet(t).URL, byAccount, "{match: POST /}")
	serve(t, t.TempDir(), limits+routes).readsQuiet()

	ca := testserver.NewCA(t)
	cert, key := ca.Server(t)
	s := serve(t, t.TempDir(), "tls: {cert: \""+cert+"\", key: \""+key+"\"}\n"+limits+routes)
	s.url = "https" + strings.TrimPrefix(s.url, "http")
	s.as(ca)
	s.readsQuiet()
}
