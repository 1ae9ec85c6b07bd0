package load

import (
	"errors"
	"flag"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Plan says what is sent, and how.
type Plan struct {
	// Addr is the server's address, IPv4 and port.
	Addr string
	// Path of the requests.
	Path string
	// Conns is the number of connections.
	Conns int
	// Rate in requests a second of an open loop; 0: a closed loop.
	Rate float64
	// Warm is how long requests are sent before anything is measured.
	Warm time.Duration
	// Measure is how long is measured; 0: until Count requests were answered.
	Measure time.Duration
	// Count ends the run after so many requests; 0: no limit.
	Count int64
	// First is the number of the first request. It is a multiple of Wave times the number of
	// events where tasks have to be whole.
	First int64
	// Distinct is how many numbers are sent, over and over; 0: each number once.
	Distinct int64
	// Events of a task, in order.
	Events []string
	// Wave is how many tasks are on their way at the same moment: a task's next event is sent so
	// many requests after the one before, as a robot waits for an answer before it goes on.
	Wave int64
	// Want is what the body of each reply begins with.
	Want string
	// Status is that of each reply.
	Status int
	// Keyed sends an Idempotency-Key with each request: its reqCode.
	Keyed bool
	// Header is a line that each request bears besides, such as "X-Account: 17"; empty: none.
	Header string
}

// RobotEvents are the events of the robot example in their order.
func RobotEvents() []string {
	return []string{"startFE", "station", "updateSeq", "finishFE", "finish"}
}

// Bounds of a plan.
const (
	maxConns = 4096
	maxRate  = 1e6
)

// NewFlags returns the flags that fill a plan, with their defaults in it.
func NewFlags(p *Plan) *flag.FlagSet {
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.StringVar(&p.Addr, "addr", "127.0.0.1:8080", "address of the server")
	f.StringVar(&p.Path, "path", "/in/rcs", "path of the requests")
	f.IntVar(&p.Conns, "conns", 256, "number of connections")
	f.Float64Var(&p.Rate, "rate", 0, "requests a second of an open loop; 0: a closed loop")
	f.DurationVar(&p.Warm, "warm", time.Second, "time before anything is measured")
	f.DurationVar(&p.Measure, "measure", 3*time.Second, "time that is measured; 0: until -count")
	f.Int64Var(&p.Count, "count", 0, "end after so many requests; 0: no limit")
	f.Int64Var(&p.First, "first", 0, "number of the first request")
	f.Int64Var(&p.Distinct, "distinct", 0, "how many numbers are sent over and over; 0: each once")
	p.Events = RobotEvents()
	f.Func("events", "events of a task, in order, with commas", func(s string) error {
		p.Events = strings.Split(s, ",")
		return nil
	})
	f.Int64Var(&p.Wave, "wave", 1024, "tasks on their way at the same moment")
	f.StringVar(&p.Want, "want", `{"code":"0"`, "what the body of each reply begins with")
	f.IntVar(&p.Status, "status", http.StatusOK, "status of each reply")
	f.BoolVar(&p.Keyed, "keyed", false, "send an Idempotency-Key with each request: its reqCode")
	f.StringVar(&p.Header, "header", "", "a line that each request bears besides, NAME: VALUE")
	return f
}

// Args writes the plan as the arguments that NewFlags reads.
func (p *Plan) Args() []string {
	return []string{
		"-addr", p.Addr, "-path", p.Path, "-conns", strconv.Itoa(p.Conns),
		"-rate", strconv.FormatFloat(p.Rate, 'f', -1, 64), "-warm", p.Warm.String(),
		"-measure", p.Measure.String(), "-count", strconv.FormatInt(p.Count, 10),
		"-first", strconv.FormatInt(p.First, 10), "-distinct", strconv.FormatInt(p.Distinct, 10),
		"-events", strings.Join(p.Events, ","), "-wave", strconv.FormatInt(p.Wave, 10),
		"-want", p.Want, "-status", strconv.Itoa(p.Status), "-keyed=" + strconv.FormatBool(p.Keyed),
		"-header", p.Header,
	}
}

func (p *Plan) check() (netip.AddrPort, error) {
	addr, err := netip.ParseAddrPort(p.Addr)
	switch {
	case err != nil:
		return addr, err
	case !addr.Addr().Is4():
		return addr, errors.New("the address is not IPv4")
	case p.Conns < 1 || p.Conns > maxConns:
		return addr, errors.New("conns is out of range")
	case p.Rate < 0 || p.Rate > maxRate:
		return addr, errors.New("rate is out of range")
	case p.Measure <= 0 && p.Count <= 0:
		return addr, errors.New("neither measure nor count is given")
	case p.Wave < 1 || len(p.Events) == 0 || p.First < 0 || p.Distinct < 0 || p.Count < 0:
		return addr, errors.New("wave, events, first, distinct or count is out of range")
	case p.Status < 200 || p.Status > 599:
		return addr, errors.New("status is out of range")
	case p.Header != "" && !strings.Contains(p.Header, ": "), strings.ContainsAny(p.Header, "\r\n"):
		return addr, errors.New("header is no line such as NAME: VALUE")
	}
	return addr, nil
}

// Result is what came of a run.
type Result struct {
	// Measured is the time that was measured, Rate the replies a second in it.
	Measured time.Duration
	Rate     float64
	// Sent and Answered count all requests, those of the warm-up too.
	Sent, Answered int64
	// Replayed counts the replies among them that bear Idempotent-Replayed: true.
	Replayed int64
	// Unsent counts the requests of an open loop that were due and found no free connection to
	// the end.
	Unsent int64
	// Latencies of the measured requests.
	P50, P90, P99, P999, Max time.Duration
	// CPU is what the generator used, a request.
	CPU time.Duration
	// Errors counts wrong replies and broken connections; FirstError says what the first was.
	Errors     int64
	FirstError string
}
