package oncehttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLargeBodiesAreParsedAFewAtATime(t *testing.T) {
	t.Parallel()
	m := &guarded{parsing: make(chan struct{}, maxParsing)}
	large := `["` + strings.Repeat("x", largeContent) + `"]`
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	_, _ = z.Write([]byte("[]"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	m.cfg.Content.MaxDecoded = defaultMaxDecoded
	left, leave := context.WithCancel(t.Context())
	leave()
	asked := func(ctx context.Context, data []byte, encoding string) error {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
		r.Header.Set("Content-Type", "application/json")
		if encoding != "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		_, err := m.fingerprint(r, &body{data: data, size: int64(len(data))})
		return err
	}
	for range maxParsing {
		m.parsing <- struct{}{}
	}
	if err := asked(left, []byte(large), ""); !errors.Is(err, errBusy) {
		t.Errorf("a large body beside as many as may be: %v, want that it waits", err)
	}
	if err := asked(left, small.Bytes(), "gzip"); !errors.Is(err, errBusy) {
		t.Errorf("a compressed body, which may be large: %v, want that it waits", err)
	}
	if err := asked(left, []byte("[]"), ""); err != nil {
		t.Errorf("a small body waits: %v", err)
	}
	<-m.parsing
	for range 2 { // the place is given back
		if err := asked(t.Context(), []byte(large), ""); err != nil {
			t.Errorf("a place is free: %v", err)
		}
	}
}
