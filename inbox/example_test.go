package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/webhook"
)

// A source whose senders number their messages in a header.
func ExampleNew() {
	bearer, err := webhook.NewBearer("token")
	if err != nil {
		fmt.Println(err)
		return
	}
	orders := &inbox.Source{
		Name: "orders",
		Key: func(m *inbox.Message) (once.Key, error) {
			id, err := m.OneHeader("X-Webhook-Id")
			if err != nil {
				return nil, err
			}
			return once.KeyOf(id)
		},
		Fingerprint: func(m *inbox.Message) (once.Fingerprint, error) {
			return once.FingerprintRaw(m.Raw), nil
		},
		Route: func(m *inbox.Message, _ string) (inbox.Route, error) {
			return inbox.Route{Lane: "handler/orders"}, nil
		},
		Verifier: inbox.Signed(bearer),
	}
	receiver, err := inbox.New(newMemStore(), []*inbox.Source{orders}, inbox.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	send := func(token string) {
		body := strings.NewReader(`{"amount": 100}`)
		r := httptest.NewRequest(http.MethodPost, "/in/orders", body)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("X-Webhook-Id", "W-1")
		w := httptest.NewRecorder()
		receiver.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	}
	send("token")
	send("token") // again: the same answer
	send("guess")
	// Output:
	// 200 {"outcome":"accepted","id":"8b07pfqlalfohf57n4vl1lra0c"}
	// 200 {"outcome":"accepted","id":"8b07pfqlalfohf57n4vl1lra0c"}
	// 401 {"outcome":"unauthorized","error":"the bearer token is not valid"}
}

// A handler that tells apart what may pass and what won't.
func ExampleWorkFunc() {
	book := inbox.WorkFunc(func(_ context.Context, c inbox.Callback) (any, error) {
		var order struct{ Amount int }
		if err := c.Decode(&order); err != nil {
			return nil, inbox.Permanent(err)
		}
		if order.Amount <= 0 {
			return nil, inbox.Permanent(errors.New("nothing to book"))
		}
		return nil, nil // call the bank with c.IdempotencyKey() here
	})
	row := row(1)
	row.Body = []byte(`{"amount": 0}`)
	s := inbox.Attempt(context.Background(), inbox.HandlerConfig{Handler: book}, row)
	fmt.Println(s.State, s.Error)
	// Output: dead nothing to book
}
