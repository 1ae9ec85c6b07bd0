package figure

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/oncekit/once/bench/internal/peer"
	"github.com/oncekit/once/bench/internal/table"
	"github.com/oncekit/once/bench/internal/turns"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

const (
	// round is how long the turns of one store last: it keeps all answers, and what is kept makes
	// collecting garbage dearer.
	round = time.Second
	// roundBytes bounds what it keeps.
	roundBytes = 1 << 30
)

// middleware measures what the middleware adds to a handler, in process: without net/http's server
// and without a store that writes.
func middleware(ctx context.Context, b *Bench) error {
	values := map[string][]float64{}
	for left := b.Phase; left > 0; left -= round {
		got, err := middlewareRound(ctx, min(left, round))
		if err != nil {
			return err
		}
		for row, v := range got {
			values[row] = append(values[row], v)
		}
	}
	for row, v := range values {
		b.add("middleware."+row, table.Median(v))
	}
	b.logf("bare %.2f µs; a first request adds %.2f of it, a replay costs %.2f, no key adds %.3f",
		table.Median(values["bare"]), table.Median(values["first"]),
		table.Median(values["replay"]), table.Median(values["no-key"]))
	return nil
}

// middlewareRound measures all in turns, and returns the values of the rows.
func middlewareRound(ctx context.Context, total time.Duration) (map[string]float64, error) {
	bare := http.HandlerFunc(peer.Orders)
	guarded, err := guard(bare)
	if err != nil {
		return nil, err
	}
	textbook := peer.Textbook(bare)
	var calls callers
	costs, err := turns.Measure(ctx, total, calls.to(bare, noKey), calls.to(guarded, noKey),
		calls.to(guarded, newKey), calls.to(guarded, sameKey), calls.to(textbook, newKey),
		calls.to(textbook, sameKey))
	if err == nil {
		err = calls.wrong()
	}
	if err != nil {
		return nil, err
	}
	part := func(i int) float64 { return float64(costs[i].Time) / float64(costs[0].Time) }
	return map[string]float64{
		"bare": float64(costs[0].Time) / float64(time.Microsecond), "bare-allocs": costs[0].Allocs,
		"no-key": part(1) - 1, "no-key-allocs": costs[1].Allocs - costs[0].Allocs,
		"first": part(2) - 1, "first-allocs": costs[2].Allocs - costs[0].Allocs,
		"replay": part(3), "replay-allocs": costs[3].Allocs,
		"textbook-first": part(4) - 1, "textbook-replay": part(5),
	}, nil
}

// guard puts once before a handler, as its documentation begins.
func guard(next http.Handler) (http.Handler, error) {
	store, err := oncemem.New(oncemem.Config{SingleInstance: true, MaxBytes: roundBytes})
	if err != nil {
		return nil, err
	}
	m, err := oncehttp.Middleware(oncehttp.Config{Store: store, Scope: oncehttp.NoScope})
	if err != nil {
		return nil, err
	}
	return m(next), nil
}

// keys are the kinds of keys of a caller's requests.
type keys int

const (
	noKey keys = iota
	newKey
	sameKey
)

// callers send requests without a network.
type callers []*caller

// caller sends one request over and over. It allocates nothing that a server has to allocate.
type caller struct {
	handler http.Handler
	keys    keys
	n       int
	key     []string
	request *http.Request
	body    *bytes.Reader
	closer  io.ReadCloser // over body
	header  http.Header
	// What came of it: of all calls, how many answers were right, and how many were replays.
	status         int
	bytes          int
	right, replays int
}

// Header implements http.ResponseWriter, as the other two do.
func (c *caller) Header() http.Header { return c.header }

// WriteHeader keeps the status.
func (c *caller) WriteHeader(status int) { c.status = status }

// Write counts the bytes.
func (c *caller) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}

// to returns a function that sends one request to a handler.
func (all *callers) to(h http.Handler, k keys) func() {
	c := &caller{handler: h, keys: k, key: make([]string, 1), body: bytes.NewReader(nil),
		header: http.Header{}}
	c.request, _ = http.NewRequest(http.MethodPost, "http://api.test/orders", nil) // it is sound
	c.request.Header.Set("Content-Type", "application/json")
	c.request.ContentLength = int64(len(peer.OrderText))
	c.closer = io.NopCloser(c.body)
	if k != noKey {
		c.key[0] = `"3f0c9f6e-8a9b-4a7d-9a55-00000000"`
		c.request.Header["Idempotency-Key"] = c.key
	}
	*all = append(*all, c)
	return c.call
}

var orderText = []byte(peer.OrderText)

func (c *caller) call() {
	c.n++
	if c.keys == newKey {
		const first = 1_000_000_000 // so that all are of one length
		c.key[0] = "3f0c9f6e-8a9b-4a7d-9a55-" + strconv.Itoa(first+c.n)
	}
	c.body.Reset(orderText)
	c.request.Body = c.closer // a handler may have changed it
	clear(c.header)
	c.status, c.bytes = 0, 0
	c.handler.ServeHTTP(c, c.request)
	if c.status == http.StatusCreated && c.bytes == len(orderText)+len("\n") {
		c.right++
	}
	if c.header["Idempotent-Replayed"] != nil {
		c.replays++
	}
}

// wrong reports callers whose answers were not what they should have been.
func (all callers) wrong() error {
	for i, c := range all {
		replays := 0
		if c.keys == sameKey {
			replays = c.n - 1
		}
		if c.right != c.n || c.replays != replays {
			return fmt.Errorf("caller %d: of %d answers %d were right and %d replays, want %d", i,
				c.n, c.right, c.replays, replays)
		}
	}
	return nil
}
