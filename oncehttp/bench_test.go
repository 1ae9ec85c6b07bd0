package oncehttp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

// order is what the bare handler decodes and answers: about 300 bytes of JSON.
type order struct {
	ID       string            `json:"id"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Customer string            `json:"customer"`
	Items    []item            `json:"items"`
	Meta     map[string]string `json:"meta"`
}

type item struct {
	SKU   string `json:"sku"`
	Count int    `json:"count"`
	Price int64  `json:"price"`
}

const orderText = `{"id":"ord_5f1c2e7a9b","amount":129900,"currency":"EUR",` +
	`"customer":"cus_00017","items":[{"sku":"A-1001","count":2,"price":49950},` +
	`{"sku":"B-2040","count":1,"price":30000}],` +
	`"meta":{"channel":"web","campaign":"autumn","note":"leave at the door, please"}}`

func bareHandler(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(o)
}

// discard is a writer of answers that costs nothing.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

type caller struct {
	r    *http.Request
	w    discard
	body *bytes.Reader
}

func newCaller() *caller {
	c := &caller{body: bytes.NewReader(nil), w: discard{http.Header{}}}
	c.r, _ = http.NewRequest(http.MethodPost, "http://api.test/orders", nil)
	c.r.Header.Set("Content-Type", "application/json")
	c.r.ContentLength = int64(len(orderText))
	c.r.Body = io.NopCloser(c.body)
	return c
}

func (c *caller) call(h http.Handler, key []string) {
	c.body.Reset([]byte(orderText))
	clear(c.w.h)
	if key != nil {
		c.r.Header["Idempotency-Key"] = key
	}
	h.ServeHTTP(&c.w, c.r)
}

func BenchmarkMiddleware(b *testing.B) {
	store, err := oncemem.New(oncemem.Config{SingleInstance: true, MaxBytes: 4 << 30})
	if err != nil {
		b.Fatal(err)
	}
	guard, err := oncehttp.Middleware(oncehttp.Config{Store: store, Scope: oncehttp.NoScope})
	if err != nil {
		b.Fatal(err)
	}
	bare := http.HandlerFunc(bareHandler)
	guarded := guard(bare)
	b.Run("bare", func(b *testing.B) {
		c := newCaller()
		b.ReportAllocs()
		for b.Loop() {
			c.call(bare, nil)
		}
	})
	b.Run("no key", func(b *testing.B) {
		c := newCaller()
		b.ReportAllocs()
		for b.Loop() {
			c.call(guarded, nil)
		}
	})
	n := 0
	b.Run("first", func(b *testing.B) {
		c := newCaller()
		b.ReportAllocs()
		key := []string{""}
		for b.Loop() {
			n++
			key[0] = "3f0c9f6e-8a9b-4a7d-9a55-" + strconv.Itoa(1e9+n)
			c.call(guarded, key)
		}
	})
	b.Run("replay", func(b *testing.B) {
		c := newCaller()
		b.ReportAllocs()
		key := []string{`"3f0c9f6e-8a9b-4a7d-9a55-00000000"`}
		c.call(guarded, key)
		for b.Loop() {
			c.call(guarded, key)
		}
	})
}
