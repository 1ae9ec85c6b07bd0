package peer

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
)

// maxLarge bounds a large answer, in bytes.
const maxLarge = 4 << 30

// origin is an API behind a proxy. POST / makes an order of a callback and answers 201 with about
// 300 bytes; /large takes and gives as much as is wanted.
type origin struct {
	mux    http.ServeMux
	orders atomic.Int64
}

func newOrigin() *origin {
	o := &origin{}
	o.mux.HandleFunc("POST /", o.order)
	o.mux.HandleFunc("POST /large", o.large)
	o.mux.HandleFunc("GET /large", o.large)
	o.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "origin_orders_total %d\n", o.orders.Load())
	})
	return o
}

// ServeHTTP implements http.Handler.
func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) { o.mux.ServeHTTP(w, r) }

func (o *origin) order(w http.ResponseWriter, r *http.Request) {
	var c struct{ ReqCode, TaskCode, CallbackMethod string }
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&c)
	if err != nil || c.ReqCode == "" {
		http.Error(w, "no callback", http.StatusBadRequest)
		return
	}
	n := o.orders.Add(1)
	b := make([]byte, 0, 512)
	b = strconv.AppendInt(append(b, `{"id":`...), n, 10)
	b = strconv.AppendQuote(append(b, `,"reqCode":`...), c.ReqCode)
	b = strconv.AppendQuote(append(b, `,"taskCode":`...), c.TaskCode)
	b = append(b, `,"amount":129900,"currency":"EUR",`+
		`"items":[{"sku":"A-1001","count":2,"price":49950},{"sku":"B-2040","count":1,"price":30000}],"meta":{"channel":"web","campaign":"autumn",`+
		`"note":"leave at the door, please"}}`...)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(b) // a caller that went away is its own affair
}

// large reads its whole body and answers with the number of its bytes; with ?bytes=N it answers
// with so many bytes instead.
func (o *origin) large(w http.ResponseWriter, r *http.Request) {
	got, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, "the body broke off", http.StatusBadRequest)
		return
	}
	o.orders.Add(1)
	text := r.URL.Query().Get("bytes")
	if text == "" {
		_, _ = fmt.Fprint(w, got)
		return
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxLarge {
		http.Error(w, "bytes is out of range", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", text)
	w.Header().Set("Content-Type", "application/octet-stream")
	part := make([]byte, 64<<10)
	for n > 0 {
		k, err := w.Write(part[:min(n, int64(len(part)))])
		if n -= int64(k); err != nil {
			return
		}
	}
}
