package wire

// Record is one line of the list of records: what is remembered of a guarded request.
type Record struct {
	ID         string   `json:"id" doc:"All of its identity, in hex."`
	State      string   `json:"state" enum:"record"`
	Scope      []string `json:"scope" doc:"To whom the key belongs; none: all share their keys."`
	Key        string   `json:"key" doc:"The beginning of the key, never all of it."`
	Request    string   `json:"request" doc:"Method and path."`
	OnUnknown  string   `json:"on_unknown" doc:"After a lost attempt: retry or hold."`
	Attempt    int      `json:"attempt" doc:"Attempts so far, the running one included."`
	Fence      int64    `json:"fence" doc:"Rises with each attempt; the service got it."`
	ClaimedAt  *Instant `json:"claimed_at" doc:"Start of the latest attempt."`
	FinishedAt *Instant `json:"finished_at" doc:"Its end."`
	LastAt     *Instant `json:"last_at" doc:"The last request that was worked or replayed."`
	LeaseEnd   *Instant `json:"lease_end" doc:"Until when the attempt has the key."`
	ExpiresAt  *Instant `json:"expires_at" doc:"May be forgotten from then; null: never."`
	Size       int      `json:"size" doc:"Bytes of the kept outcome."`
}

// RecordPage is a page of records.
type RecordPage struct {
	Items []Record `json:"items" doc:"In the order of the store."`
	Next  string   `json:"next" doc:"Cursor of the next page; empty: there is none."`
}

// RecordDetail is a record with its kept answer.
type RecordDetail struct {
	Record
	Means  string        `json:"means" doc:"What its state means, and what can be done."`
	Answer *RecordAnswer `json:"answer" doc:"What a repeat gets; null: there is none."`
}

// RecordAnswer is a kept answer.
type RecordAnswer struct {
	Status int           `json:"status"`
	Header []HeaderField `json:"header"`
	Kept   bool          `json:"kept" doc:"A repeat gets the body, too."`
	Payload
}

// HeaderField is one line of a header.
type HeaderField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// RecordChange decides about a record.
type RecordChange struct {
	Change
	Fence *int64 `json:"fence,omitempty" null:"no" doc:"Only if it still has this fence."`
}

// ResolveChange decides about a record whose attempt was lost.
type ResolveChange struct {
	RecordChange
	RunAgain bool           `json:"run_again,omitempty" doc:"The next request runs it again."`
	Answer   *ResolveAnswer `json:"answer,omitempty" null:"no" doc:"What every repeat gets."`
}

// ResolveAnswer is an answer that a person knows.
type ResolveAnswer struct {
	Status     int           `json:"status" doc:"200 to 599."`
	Header     []HeaderField `json:"header,omitempty"`
	Body       string        `json:"body,omitempty"`
	BodyBase64 string        `json:"body_base64,omitempty" doc:"In the place of body."`
}
