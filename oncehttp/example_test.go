package oncehttp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

// paymentHandler charges a card once for each request that it gets.
type paymentHandler struct{ charged int }

func (p *paymentHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var order struct {
		Amount int64 `json:"amount"`
	}
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, "no order", http.StatusBadRequest)
		return
	}
	p.charged++
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"payment":%d,"amount":%d}`, p.charged, order.Amount)
}

// A payment is charged once, however often its request arrives.
func ExampleMiddleware() {
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		log.Fatal(err)
	}
	guard, err := oncehttp.Middleware(oncehttp.Config{
		Store: store,
		Key:   oncehttp.KeyRequired,
		// A key belongs to the account that the login gives, never to all of them.
		Scope: func(r *http.Request) (once.Scope, error) {
			account, _, _ := r.BasicAuth() // checked by a handler outside of this one
			return once.NewScope(account)
		},
		// A charge that may have been made is looked at by a person before it is made again.
		Guard: once.Config{OnUnknown: once.Hold},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := &paymentHandler{}
	mux := http.NewServeMux()
	mux.Handle("POST /payments", guard(handler))
	server := httptest.NewServer(mux)
	defer server.Close()

	send := func(key, body string) {
		url := server.URL + "/payments"
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		req.SetBasicAuth("account-1", "secret")
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Idempotency-Key", `"`+key+`"`)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			log.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			log.Fatal(err)
		}
		if p := (oncehttp.Problem{}); json.Unmarshal(text, &p) == nil && p.Type != "" {
			text = []byte(p.Type)
		}
		fmt.Println(resp.StatusCode, string(text),
			"replayed:", resp.Header.Get("Idempotent-Replayed") == "true")
	}
	send("7f1c", `{"amount": 100}`)
	send("7f1c", `{"amount":100}`) // the answer was lost: the client sends it again
	send("7f1c", `{"amount":200}`) // never under the same key
	send("", `{"amount":100}`)
	fmt.Println("charged:", handler.charged)
	// Output:
	// 201 {"payment":1,"amount":100} replayed: false
	// 201 {"payment":1,"amount":100} replayed: true
	// 422 urn:once:problem:mismatch replayed: false
	// 400 urn:once:problem:key-missing replayed: false
	// charged: 1
}

// A fence lets another system refuse what a late attempt still sends.
func ExampleGrant() {
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		log.Fatal(err)
	}
	guard, err := oncehttp.Middleware(oncehttp.Config{Store: store, Scope: oncehttp.NoScope})
	if err != nil {
		log.Fatal(err)
	}
	h := guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		grant, ok := oncehttp.Grant(r.Context())
		fmt.Println(ok, grant.Attempt, grant.Fence > 0)
	}))
	r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", "7f1c")
	h.ServeHTTP(httptest.NewRecorder(), r)
	// Output: true 1 true
}

// What belongs to one transport only, such as a time of sending, may differ between a request and
// its repeat.
func ExampleContent() {
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		log.Fatal(err)
	}
	guard, err := oncehttp.Middleware(oncehttp.Config{
		Store: store, Scope: oncehttp.NoScope,
		Content: oncehttp.Content{Ignore: []string{"/sent_at"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	h := guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}))
	for _, body := range []string{
		`{"order":1,"sent_at":"10:00:01"}`, `{"sent_at":"10:00:02","order":1}`,
		`{"order":2,"sent_at":"10:00:01"}`,
	} {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "7f1c")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, "replayed:", w.Header().Get("Idempotent-Replayed") == "true")
	}
	// Output:
	// 201 replayed: false
	// 201 replayed: true
	// 422 replayed: false
}
