package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncesqlite"
)

// operator shows what is held, and takes what a person has decided:
//
//	GET  /held
//	POST /held/IDENTITY/run-again
//	POST /held/IDENTITY/answer        the body is the answer that repeats get, as a 201
type operator struct{ records *oncesqlite.Records }

func (o operator) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /held", o.list)
	mux.HandleFunc("POST /held/{identity}/run-again", o.runAgain)
	mux.HandleFunc("POST /held/{identity}/answer", o.answer)
	return mux
}

func (o operator) list(w http.ResponseWriter, r *http.Request) {
	page, err := o.records.Records(r.Context(), once.RecordFilter{State: once.Held})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	for _, rec := range page.Records {
		fmt.Fprintf(w, "%x %s %s key %s… since %s\n", rec.Identity[:], rec.Note.Scope,
			rec.Note.Request, rec.Note.Key, rec.ClaimedAt.UTC().Format("2006-01-02T15:04:05Z"))
	}
}

// runAgain lets the next one who asks run the request again: it is known to have had no effect.
func (o operator) runAgain(w http.ResponseWriter, r *http.Request) {
	if id, ok := identity(w, r); ok {
		o.resolve(w, r, id, once.Resolution{Decision: once.RunAgain})
	}
}

const maxAnswer = 1 << 20

// answer gives repeats the answer that the lost attempt would have given: it is known to be done.
func (o operator) answer(w http.ResponseWriter, r *http.Request) {
	id, ok := identity(w, r)
	if !ok {
		return
	}
	var body json.RawMessage
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAnswer)).Decode(&body); err != nil {
		http.Error(w, "an answer is JSON", http.StatusBadRequest)
		return
	}
	outcome, err := oncehttp.Answer{
		Status: http.StatusCreated,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   body,
	}.Outcome(id, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	o.resolve(w, r, id, once.Resolution{Decision: once.AnswerWith, Outcome: outcome})
}

// identity reads whose record is meant. It answers, and returns false, where that is none.
func identity(w http.ResponseWriter, r *http.Request) (once.Identity, bool) {
	b, err := hex.DecodeString(r.PathValue("identity"))
	if err != nil || len(b) != len(once.Identity{}) {
		http.Error(w, "that is no identity", http.StatusBadRequest)
		return once.Identity{}, false
	}
	return once.Identity(b), true
}

func (o operator) resolve(
	w http.ResponseWriter, r *http.Request, id once.Identity, decision once.Resolution,
) {
	err := o.records.Resolve(r.Context(), id, decision)
	switch {
	case errors.Is(err, once.ErrNotFound), errors.Is(err, once.ErrState):
		http.Error(w, err.Error(), http.StatusConflict) // somebody was faster, or it is not held
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(w, "decided")
	}
}
