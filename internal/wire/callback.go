package wire

// Callback is one line of the list of callbacks.
type Callback struct {
	ID         string   `json:"id" doc:"Public id, stable for the life of the callback."`
	Source     string   `json:"source"`
	Key        []string `json:"key" doc:"The parts of the key, as texts."`
	Event      string   `json:"event"`
	Task       string   `json:"task" doc:"The task that it belongs to; empty: none."`
	State      string   `json:"state" enum:"callback"`
	Attempt    int      `json:"attempt" doc:"Tries so far, the running one included."`
	ReceivedAt Instant  `json:"received_at"`
	NextTryAt  *Instant `json:"next_try_at" doc:"Next try, or end of the wait of a parked one."`
	Error      string   `json:"error" doc:"The reason for the state; empty: none."`
	Duplicates int64    `json:"duplicates" doc:"Later arrivals with the same content."`
	Conflicts  int64    `json:"conflicts" doc:"Later arrivals with other content."`
}

// CallbackPage is a page of callbacks.
type CallbackPage struct {
	Items []Callback `json:"items" doc:"Latest first."`
	Next  string     `json:"next" doc:"Cursor of the next page; empty: there is none."`
}

// CallbackDetail is a callback with everything that is kept about it.
type CallbackDetail struct {
	Callback
	Flow          string   `json:"flow" doc:"The flow of the task; empty: none."`
	Revision      int      `json:"revision" doc:"0; n for the nth content accepted by a person."`
	RevisionOf    string   `json:"revision_of" doc:"The callback that it is a revision of."`
	DeadCause     string   `json:"dead_cause" enum:"cause" doc:"Why it is dead; empty: it is not."`
	Waits         []string `json:"waits" doc:"What a parked one waits for."`
	LastArrivalAt Instant  `json:"last_arrival_at"`
	StartedAt     *Instant `json:"started_at" doc:"Start of the last try."`
	FinishedAt    *Instant `json:"finished_at"`
	Element       *Element `json:"element" doc:"Its place in its message; null: it has it alone."`
	Request       Request  `json:"request"`
	Headers       Headers  `json:"headers" doc:"As they came, but those that are not kept."`
	HiddenHeaders Headers  `json:"hidden_headers" doc:"Keyed digests of headers that are not kept."`
	Payload
	Receipts []Receipt `json:"receipts" doc:"The arrivals; of very many the first and last 20."`
	Attempts []Attempt `json:"attempts" doc:"The latest tries, earliest first."`
	Audit    []Action  `json:"audit" doc:"What people did to it, earliest first."`
}

// Headers are the headers of a request.
type Headers map[string][]string

// Element is the place of a callback in a message that carries several.
type Element struct {
	Index int `json:"index" doc:"From 0."`
	Of    int `json:"of" doc:"Elements of the message, those that were refused included."`
}

// Request is how a message came.
type Request struct {
	Method string `json:"method" doc:"Empty here and below: no longer kept."`
	Path   string `json:"path"`
	Query  string `json:"query"`
	Host   string `json:"host"`
	Peer   string `json:"peer" doc:"Address of the sender."`
}

// Receipt is one arrival of a callback. Of a conflict it has the body.
type Receipt struct {
	N        int64   `json:"n" doc:"0 is the first arrival."`
	At       Instant `json:"at"`
	Outcome  string  `json:"outcome" enum:"outcome"`
	Peer     string  `json:"peer"`
	Accepted string  `json:"accepted" doc:"The revision that a person made of it; empty: none."`
	*Payload
}

// Attempt is one try of a callback or an effect.
type Attempt struct {
	N         int      `json:"n"`
	StartedAt *Instant `json:"started_at"`
	EndedAt   *Instant `json:"ended_at"`
	Result    string   `json:"result" doc:"retry, lost, or the state that it led to."`
	Error     string   `json:"error"`
}

// Action is what a person did.
type Action struct {
	At     Instant `json:"at"`
	Action string  `json:"action"`
	Actor  string  `json:"actor"`
	Reason string  `json:"reason"`
}

// Rejected is a message that became no callback.
type Rejected struct {
	ID      int64   `json:"id"`
	Source  string  `json:"source" doc:"Empty: no source has the path."`
	At      Instant `json:"at"`
	Outcome string  `json:"outcome" enum:"outcome"`
	Reason  string  `json:"reason"`
	Peer    string  `json:"peer" doc:"Address of the sender."`
	Size    int64   `json:"size" doc:"Bytes of the body as far as it was read."`
	Request Request `json:"request"`
	Headers Headers `json:"headers"`
	Payload
}

// RejectedList are the latest refused messages.
type RejectedList struct {
	Items []Rejected `json:"items" doc:"Latest first; the ring of a source is bounded."`
}
