package figure

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/oncekit/once/bench/internal/serving"
)

// largeSize is the size of a large upload or answer, in bytes.
const largeSize = 1 << 30

// transfer is one way in which much goes through a gateway.
type transfer struct {
	row, method string
	up, keyed   bool
}

// gatewayLarge measures what a gateway's memory grows by while one large body goes through it, each
// on a process of its own.
func gatewayLarge(ctx context.Context, b *Bench) error {
	for _, t := range []transfer{
		{"upload", http.MethodPost, true, false}, {"answer", http.MethodGet, false, false},
		{"keyed-upload", http.MethodPost, true, true},
		{"keyed-answer", http.MethodPost, false, true},
	} {
		err := b.with(ctx, "origin", "", "", func(origin *serving.Server) error {
			return b.sqliteFront(ctx, origin.Addr, func(s *serving.Server) error {
				grown, took, err := growth(ctx, s, t)
				if err != nil {
					return fmt.Errorf("%s: %w", t.row, err)
				}
				b.logf("%-13s 1 GiB in %v: memory grew by %.1f MB", t.row, short(took), grown/1e6)
				b.add("gateway-large."+t.row, grown/1e6)
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// growth returns what the memory of a process grew by during a transfer, in bytes.
func growth(ctx context.Context, s *serving.Server, t transfer) (grown float64, took time.Duration,
	err error) {
	if err := t.run(ctx, s.Addr, 1); err != nil { // what the first request makes
		return 0, 0, err
	}
	if err := sleep(ctx, time.Second); err != nil {
		return 0, 0, err
	}
	idle, err := s.Memory()
	if err != nil {
		return 0, 0, err
	}
	watch, stop := context.WithCancel(ctx)
	most := make(chan int64, 1)
	go func() { most <- highestMemory(watch, s, 5*time.Millisecond) }()
	begun := time.Now()
	err = t.run(ctx, s.Addr, largeSize)
	took = time.Since(begun)
	stop()
	return float64(<-most - idle), took, err
}

// run sends or fetches so many bytes, and checks that they came.
func (t transfer) run(ctx context.Context, addr string, size int64) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	url, want := "http://"+addr+"/large", size
	var body io.Reader = http.NoBody
	if t.up {
		body, want = io.LimitReader(zeros{}, size), int64(len(strconv.FormatInt(size, 10)))
	} else {
		url += "?bytes=" + strconv.FormatInt(size, 10)
	}
	r, err := http.NewRequestWithContext(ctx, t.method, url, body)
	if err != nil {
		return err
	}
	r.Header.Set("X-Account", "17")
	if t.up {
		r.ContentLength = size
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	if t.keyed {
		r.Header.Set("Idempotency-Key", fmt.Sprintf(`"%s-%d"`, t.row, size))
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	head := make([]byte, 32)
	n, err := io.ReadFull(answer.Body, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return fmt.Errorf("read answer: %w", err)
	}
	rest, err := io.Copy(io.Discard, answer.Body)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if got := int64(n) + rest; answer.StatusCode != http.StatusOK || got != want ||
		t.up && string(head[:n]) != strconv.FormatInt(size, 10) {
		return fmt.Errorf("status %d with %d bytes, want 200 with %d: %.32q", answer.StatusCode,
			got, want, head[:n])
	}
	return nil
}

// zeros never ends.
type zeros struct{}

// Read fills p with zeros.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
