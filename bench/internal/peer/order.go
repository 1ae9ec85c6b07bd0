package peer

import (
	"encoding/json"
	"net/http"
)

// order is what Orders decodes and answers.
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

// OrderText is a request to Orders, and its answer: about 300 bytes.
const OrderText = `{"id":"ord_5f1c2e7a9b","amount":129900,"currency":"EUR",` +
	`"customer":"cus_00017","items":[{"sku":"A-1001","count":2,"price":49950},` +
	`{"sku":"B-2040","count":1,"price":30000}],` +
	`"meta":{"campaign":"autumn","channel":"web","note":"leave at the door, please"}}`

// Orders is a handler that does what every handler of an API does beside its work: it decodes the
// JSON of a request and answers with JSON.
func Orders(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(o) // a caller that went away is its own affair
}
