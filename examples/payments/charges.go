package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
)

// accounts stand for whatever tells who a caller is: sessions, tokens, certificates.
var accounts = map[string]string{
	"Bearer token-of-acct-1":      "acct-1",
	"Bearer next-token-of-acct-1": "acct-1", // a token changes; the account stays
	"Bearer token-of-acct-2":      "acct-2",
}

type accountKey struct{}

// signedIn lets only known callers through, also to an answer that is kept.
func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account, ok := accounts[r.Header.Get("Authorization")]
		if !ok {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, account)))
	})
}

// accountOf says whose a key is: the account, which stays the same when its token changes.
func accountOf(r *http.Request) (once.Scope, error) {
	account, _ := r.Context().Value(accountKey{}).(string)
	return once.NewScope(account) // an empty one is refused
}

// charges charges cards.
type charges struct{ network *cardNetwork }

func (c charges) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Card  string `json:"card"`
		Cents int64  `json:"cents"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Card == "" || in.Cents <= 0 {
		http.Error(w, "a charge needs a card and cents", http.StatusUnprocessableEntity) // kept
		return
	}
	// What calls on has a key for it, too: the same one in every attempt of this request.
	grant, _ := oncehttp.Grant(r.Context())
	err := c.network.charge(r.Context(), grant.Identity.ID(), in.Card, in.Cents)
	switch {
	case errors.Is(err, errNotReached): // no card was charged: the key is free again
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	case err != nil: // nobody knows whether the card was charged: held
		http.Error(w, "the card network did not answer", http.StatusBadGateway)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "ch_" + grant.Identity.ID(), "card": in.Card, "cents": in.Cents,
		})
	}
}

// cardNetwork stands for a service that charges cards: each line of its file is a charge.
type cardNetwork struct {
	file string
	slow time.Duration
}

var errNotReached = errors.New("card network is not reached")

// charge charges a card, and may take long to say so.
func (n *cardNetwork) charge(ctx context.Context, id, card string, cents int64) error {
	f, err := os.OpenFile(n.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return errNotReached
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s %d\n", id, card, cents); err != nil {
		return err
	}
	select {
	case <-time.After(n.slow):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
