package scenario

import "time"

// Scenario is one situation: what the origin does, what is sent, and what has to come of it.
type Scenario struct {
	// ID names it, in lower case with hyphens; unique over all files.
	ID string `yaml:"id"`
	// Title says in a sentence what has to happen, Why what goes wrong otherwise.
	Title string `yaml:"title"`
	Why   string `yaml:"why"`
	// Cases are ids of the catalogue of cases that it stands for.
	Cases []string `yaml:"cases"`
	// On is the group of routes, as gateway.yaml sets them up. Default optional.
	On string `yaml:"on"`
	// Origin has what the origin does with the first request, the second, and so on; the last one
	// stands for all further ones. Default: 201 and a body that no other answer has.
	Origin []Behaviour `yaml:"origin"`
	Steps  []Step      `yaml:"steps"`
	// Runs is how often the origin has to have run in the end.
	Runs *int `yaml:"runs"`
	// Seen is what the origin has to have received, in order. Runs without an entry are not
	// compared.
	Seen []Seen `yaml:"seen"`

	// File is where it was read from.
	File string `yaml:"-"`
}

// Header is one field line: a name and a value.
type Header map[string]string

// Behaviour is what the origin does with a request. It has read the request's body before, unless
// Unread is set.
type Behaviour struct {
	// Delay before anything else; Waits: until a step lets it go.
	Delay time.Duration `yaml:"delay"`
	Waits bool          `yaml:"waits"`
	// Early is sent as 103 before the answer.
	Early []Header `yaml:"early"`
	// Status of the answer. Default 201.
	Status  int      `yaml:"status"`
	Headers []Header `yaml:"headers"`
	// Body of the answer, Times over (default 1). Default: one that no other answer has.
	Body  *string `yaml:"body"`
	Times int     `yaml:"times"`
	// Pieces are sent instead, each one flushed, with pauses between them.
	Pieces   []string      `yaml:"pieces"`
	Pause    time.Duration `yaml:"pause"`
	Trailers []Header      `yaml:"trailers"`
	// Close ends the connection: "unanswered" before the answer, "within" amid its body.
	Close string `yaml:"close"`
	// Unread answers without having read the body.
	Unread bool `yaml:"unread"`
	// Switch answers 101 and sends back what it gets.
	Switch bool `yaml:"switch"`
}

// Step is one thing that the client does or waits for. Exactly one of its verbs is set.
type Step struct {
	// Name of the exchange, for others that speak of it.
	Name string `yaml:"name"`

	// Send sends a request; Expect is what has to come back. With Background the next step begins
	// at once, and the answer is compared when it is awaited, or at the end.
	Send       *Request `yaml:"send"`
	Background bool     `yaml:"background"`
	Expect     *Expect  `yaml:"expect"`
	// RetryFor sends it again, for so long, until the answer is as expected: for something that
	// comes about soon, and nobody tells when.
	RetryFor time.Duration `yaml:"retry_for"`

	// Together sends requests at the same moment.
	Together *Together `yaml:"together"`
	// Await waits for the answer to a step in the background.
	Await string `yaml:"await"`
	// HangUp closes the connection of a step in the background. Its answer is not compared.
	HangUp string `yaml:"hang_up"`
	// UntilRuns waits until the origin has got so many requests.
	UntilRuns int `yaml:"until_runs"`
	// LetGo lets the origin go on with a run that waits, counted from 1.
	LetGo int `yaml:"let_go"`
	// Wait waits.
	Wait time.Duration `yaml:"wait"`
	// Access says what the origin tells those who ask whether the caller may: allow or forbid.
	Access string `yaml:"access"`
}

// Request is what is sent.
type Request struct {
	Method string `yaml:"method"` // default POST
	On     string `yaml:"on"`     // default that of the scenario
	Path   string `yaml:"path"`   // with its query; default /orders
	Host   string `yaml:"host"`   // default that of the target
	// Account whose request it is: A, B and so on; none: it has no such header. Default A.
	Account string `yaml:"account"`
	// Key is short for a line Idempotency-Key, before the other headers.
	Key     *string  `yaml:"key"`
	Headers []Header `yaml:"headers"`

	// Body as a text, or as bytes in base64; Times over (default 1).
	Body   *string `yaml:"body"`
	Base64 *string `yaml:"base64"`
	Times  int     `yaml:"times"`
	// Type is its Content-Type; none: it has none. Default application/json where there is a body.
	Type string `yaml:"type"`
	// Gzip compresses it.
	Gzip *Gzip `yaml:"gzip"`
	// Length is a Content-Length that may lie.
	Length *int `yaml:"length"`
	// Chunks sends it in chunks of so many bytes, without a Content-Length, with trailers.
	Chunks   int      `yaml:"chunks"`
	Trailers []Header `yaml:"trailers"`
	// Continue asks with Expect: 100-continue and sends the body only after 100.
	Continue bool `yaml:"continue"`
	// Switched is sent after 101; as many bytes are read as the body of the answer.
	Switched string `yaml:"switched"`
}

// Gzip says how a body is compressed: two that differ have different bytes.
type Gzip struct {
	Level int `yaml:"level"` // 1 to 9; default 6
	Time  int `yaml:"time"`  // the time in the header, in seconds since 1970
	// Members is how often the compressed bytes stand one after the other: RFC 1952 calls that a
	// file of several members, which decodes to the body as often. Default 1.
	Members int `yaml:"members"`
}

// Together are requests that are sent at the same moment.
type Together struct {
	// Send is sent Times over, with ${n} counted from 1; or each of Requests once.
	Send     *Request  `yaml:"send"`
	Times    int       `yaml:"times"`
	Requests []Request `yaml:"requests"`
	// Answers are what each answer may be: it is compared with them in order and has to meet one.
	Answers []Alternative `yaml:"answers"`
}

// Alternative is one thing that an answer may be.
type Alternative struct {
	// Count is how many of the answers have to be this one; not set: any number.
	Count *int `yaml:"count"`
	// Expect is what it is.
	Expect `yaml:",inline"`
}

// Expect is what an answer has to be. What is not set is not compared.
type Expect struct {
	Status int `yaml:"status"`
	// Problem is the name that ends the type of a problem (RFC 9457).
	Problem string `yaml:"problem"`
	// Replayed says whether it has to be marked as a replay.
	Replayed *bool `yaml:"replayed"`
	// SameAs names a step whose answer this one repeats: status, headers and body.
	SameAs string `yaml:"same_as"`
	// NotSameBody names a step whose body this one has not.
	NotSameBody string `yaml:"not_same_body"`
	// Headers have exactly these lines, in this order; Matches one line that a pattern matches;
	// Lacks are not there.
	Headers map[string][]string `yaml:"headers"`
	Matches map[string]string   `yaml:"matches"`
	Lacks   []string            `yaml:"lacks"`
	// Body is the whole of it; Contains a part; Bytes its length; Contains not: LacksText.
	Body      *string `yaml:"body"`
	Contains  string  `yaml:"contains"`
	LacksText string  `yaml:"lacks_text"`
	Bytes     *int    `yaml:"bytes"`
	// Trailers have these values.
	Trailers map[string]string `yaml:"trailers"`
	// Early has the statuses of answers before the final one.
	Early []int `yaml:"early"`
	// Within is when the header has to have come, FirstWithin the first byte of the body, since the
	// request was sent. NotBefore is when it may come at the earliest.
	Within      time.Duration `yaml:"within"`
	FirstWithin time.Duration `yaml:"first_within"`
	NotBefore   time.Duration `yaml:"not_before"`
	// Broken: the connection ends before the answer is whole, or the status is one of AnyOf.
	Broken bool `yaml:"broken"`
	// AnyOf are statuses of which it has to have one.
	AnyOf []int `yaml:"any_of"`
}

// Seen is what the origin has to have received.
type Seen struct {
	Method string `yaml:"method"`
	Path   string `yaml:"path"`
	// BodyOf names the step whose bytes the body has to be.
	BodyOf string `yaml:"body_of"`
	// Length is the Content-Length; -1: the body came in chunks.
	Length  *int                `yaml:"length"`
	Headers map[string][]string `yaml:"headers"`
	Lacks   []string            `yaml:"lacks"`
	// Trailers have these values.
	Trailers map[string]string `yaml:"trailers"`
}
