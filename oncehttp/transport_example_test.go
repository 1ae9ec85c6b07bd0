package oncehttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/oncekit/once/oncehttp"
)

// A payment that is kept with its key before it is sent can be sent again after a restart, too.
func ExampleTransport() {
	server := httptest.NewServer(payments())
	defer server.Close()

	transport, err := oncehttp.NewTransport(oncehttp.TransportConfig{
		MaxTries: 4, FirstPause: 10 * time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}

	req, err := http.NewRequest("POST", server.URL+"/payments", strings.NewReader(`{"amount":100}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	req = req.WithContext(oncehttp.WithKey(req.Context(), "payment-4711"))
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(body), err)
	// Output:
	// key "payment-4711": busy
	// key "payment-4711": paid
	// 201 Created paid <nil>
}

// payments is busy at first.
func payments() http.Handler {
	tries := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tries++
		if tries == 1 {
			fmt.Println("key", r.Header.Get("Idempotency-Key")+": busy")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Println("key", r.Header.Get("Idempotency-Key")+": paid")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "paid")
	})
}
