package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "embed" // plant.yaml

	"github.com/oncekit/once/internal/demo/model"
)

//go:embed plant.yaml
var plantFile string

// Bounds of a run.
const (
	// finishLimit bounds the time in which robots send the rest of their tasks after the load.
	finishLimit = 60 * time.Second
	// drainLimit bounds the time in which the server works off what is left.
	drainLimit = 5 * time.Minute
	// stuckLimit is how long nothing may change meanwhile: many times the longest wait between two
	// tries. drainPoll is the time between two looks.
	stuckLimit = 20 * time.Second
	drainPoll  = 50 * time.Millisecond
	// collectLimit bounds the questions at the end.
	collectLimit = 5 * time.Minute
	// settle is how long a server that is ready may take to notice who stands still: until then an
	// event may come first.
	settle = time.Second
	// startTries bounds how often other ports are tried.
	startTries = 5
	// lateShare is how many of the callbacks so far come again after a jump of the clock: one in so
	// many, and no more than lateMost.
	lateShare, lateMost = 12, 400
)

// rehearsal is one run of the demo.
type rehearsal struct {
	cfg    Config
	dir    string
	lay    layout
	server *server
	sinks  map[string]*sink
	seen   *sightings
	book   *ledger
	sender *sender
	robots []*robot
	start  time.Time // of the load
	show   show
	failed chan error
	wg     sync.WaitGroup // late repeats
	timing timing
	jumps  []model.Jump
}

// timing is what the figures at the end are made of.
type timing struct {
	drained         time.Duration // from the end of the load until nothing was left
	wanted          int           // requests a second
	sent, answered  float64       // a second of the load; answered are those acknowledged
	behind          time.Duration // of the robot that was furthest behind its timetable in the end
	kills, freezes  int
	badDestinations int
	shift           time.Duration
}

// Result is what a run came to.
type Result struct {
	Report *model.Report
	// Undrained says what was left when the wait for it was over; empty: nothing was.
	Undrained string
	// Kept is the folder with what a person needs to look further; empty: it is gone.
	Kept string
	timing
}

// OK reports whether everything came out as it has to.
func (r *Result) OK() bool { return r.Report.OK() && r.Undrained == "" }

// Run demonstrates. The error says why there is no result: the configuration is wrong, the server
// did not start, or ctx ended. A result that is not right is no error. Everything is shown.
func Run(ctx context.Context, cfg Config) (res *Result, err error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	p := &rehearsal{cfg: cfg, book: newLedger(), failed: make(chan error, 1),
		seen: &sightings{known: map[string]bool{}}, sinks: map[string]*sink{}}
	p.lay = newLayout(cfg.Robots, runName(cfg.Seed))
	if p.dir, err = os.MkdirTemp("", folderPrefix); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	keep := false
	p.server = &server{program: cfg.Program, dir: p.dir, config: filepath.Join(p.dir, "once.yaml")}
	defer func() { p.clean(keep) }()
	if p.server.keeper, err = hireJanitor(cfg.Program, p.dir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-p.failed:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	if res, err = p.rehearse(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if keep = p.server.served.Load() && !errors.Is(err, context.Canceled); keep {
			err = fmt.Errorf("%w\n(seed %d; the server's log and its store are kept in %s)", err,
				cfg.Seed, p.dir)
		}
		return nil, err
	}
	if keep = !res.OK(); keep {
		res.Kept = p.dir
	}
	return res, p.tell(res)
}

// runName is what the names of a run's tasks begin with.
func runName(seed uint64) string { return fmt.Sprintf("%03d", seed%1000) }

const folderPrefix = "once-demo-"

// ours reports whether a folder is one of a demo.
func ours(dir string) bool {
	return strings.HasPrefix(filepath.Base(dir), folderPrefix) &&
		filepath.Clean(filepath.Dir(dir)) == filepath.Clean(os.TempDir())
}

// clean ends everything, also after a failure in the middle.
func (p *rehearsal) clean(keep bool) {
	if p.show != nil {
		p.show.end()
	}
	p.server.end()
	p.wg.Wait()
	for _, s := range p.sinks {
		s.close()
	}
	if p.sender != nil {
		p.sender.close()
	}
	if p.server.client != nil {
		p.server.client.close()
	}
	if !keep {
		_ = os.RemoveAll(p.dir) // the janitor tries again
	}
	p.server.keeper.dismiss(keep)
}

// rehearse does all of it.
func (p *rehearsal) rehearse(ctx context.Context) (*Result, error) {
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	p.start = time.Now()
	p.show = newShow(p)
	defer p.show.end()
	if err := p.load(ctx); err != nil {
		return nil, err
	}
	undrained, err := p.drain(ctx)
	if err != nil {
		return nil, err
	}
	p.show.happens("the server is asked for everything that it knows")
	evidence, err := p.collect(ctx)
	if err != nil {
		return nil, err
	}
	if p.cfg.Tamper != nil {
		p.cfg.Tamper(evidence)
	}
	p.sender.close() // or the server waits for a request on each of its connections
	p.server.client.close()
	if err := p.server.stop(); err != nil {
		return nil, err
	}
	return &Result{Report: model.Judge(evidence), Undrained: undrained, timing: p.timing}, nil
}

// open starts the destinations and the server.
func (p *rehearsal) open(ctx context.Context) error {
	for _, name := range []string{wms, plant} {
		s, err := openSink(name, p.cfg.Seed, p.seen, p.server.now)
		if err != nil {
			return err
		}
		p.sinks[name] = s
	}
	var err error
	for range startTries {
		if err = p.configure(); err != nil {
			return err
		}
		if err = p.server.start(ctx); err == nil {
			break
		}
		p.server.end()
		if !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return err
}

// configure chooses addresses and writes the server's file.
func (p *rehearsal) configure() (err error) {
	s := p.server
	if s.addr, err = freeAddress(); err != nil {
		return err
	}
	if s.admin, err = freeAddress(); err != nil {
		return err
	}
	s.client = newAdmin(s.admin)
	store := p.cfg.Store
	if store == "" {
		store = "sqlite:" + filepath.Join(p.dir, "once.db")
	}
	text := strings.NewReplacer("${LISTEN}", s.addr, "${ADMIN}", s.admin, "${STORE}", quote(store),
		"${PLANT}", p.sinks[plant].url(), "${WMS}", p.sinks[wms].url()).Replace(plantFile)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// quote writes a text for YAML: single quotes take everything but themselves as it is.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// load lets the robots drive while everything goes wrong that is planned.
func (p *rehearsal) load(ctx context.Context) error {
	p.sender = newSender(p.book, p.start, p.fail, p.server.addr)
	load, stop := context.WithDeadline(ctx, p.start.Add(p.cfg.Duration))
	defer stop()
	var wg sync.WaitGroup
	for n := range p.cfg.Robots {
		p.robots = append(p.robots, newRobot(n, p))
	}
	p.show.begin()
	all, give := context.WithDeadline(ctx, p.start.Add(p.cfg.Duration+finishLimit))
	defer give()
	for _, r := range p.robots {
		wg.Go(func() { r.run(all, load) })
	}
	measured := make(chan struct{})
	go func() {
		defer close(measured)
		<-load.Done()
		c, took := p.counts(), time.Since(p.start).Seconds()
		p.timing.sent = float64(c.sent) / took
		p.timing.answered = float64(c.accepted+c.duplicates+c.conflicts) / took
	}()
	disturbed := make(chan error, 1)
	go func() { disturbed <- p.disturb(ctx, all) }()
	err := <-disturbed
	if err != nil {
		give()
	}
	for _, s := range p.sinks {
		err = errors.Join(err, s.settle(ctx))
	}
	if err == nil {
		<-load.Done()
		p.sender.patient.Store(true)
		p.show.happens("the load ends: robots finish their tasks, the destinations are well")
	}
	wg.Wait()
	p.wg.Wait()
	p.timing.wanted = p.cfg.Rate
	<-measured
	for _, r := range p.robots {
		p.timing.behind = max(p.timing.behind, time.Duration(r.behind.Load()))
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// fail ends the run for something that must not happen.
func (p *rehearsal) fail(err error) {
	select {
	case p.failed <- err:
	default:
	}
}

// disturb makes all planned faults, however slow the machine is. Those of destinations run beside
// those of the server. all is how long senders send.
func (p *rehearsal) disturb(ctx, all context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	rng := rand.New(rand.NewPCG(p.cfg.Seed, 2))
	for _, d := range plan(p.cfg.Seed, p.cfg.Duration) {
		if !pause(ctx, time.Until(p.start.Add(d.at))) {
			return nil
		}
		var err error
		switch {
		case d.of != "":
			p.timing.badDestinations++
			wg.Go(func() { p.sicken(ctx, d) })
		case d.kind == kill:
			err = p.kill(ctx, all, d, rng)
		case d.kind == freeze:
			p.timing.freezes++
			p.show.happens("server   frozen for " + seconds(d.lasts))
			begun := p.server.now()
			err = p.server.freeze(ctx, d.lasts)
			p.unsettle(begun)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sicken lets a destination be unwell for a while.
func (p *rehearsal) sicken(ctx context.Context, d disturbance) {
	s := p.sinks[d.of]
	s.ill.Lock()
	defer s.ill.Unlock()
	p.show.happens(fmt.Sprintf("%-8s %s for %s", d.of, d.kind, seconds(d.lasts)))
	err := s.set(ctx, d.kind)
	_ = pause(ctx, d.lasts) // it gets well in any case
	if err = errors.Join(err, s.set(context.WithoutCancel(ctx), "")); err != nil {
		p.fail(err)
	}
	p.show.happens(fmt.Sprintf("%-8s is well again", d.of))
}

// kill ends the server by SIGKILL and starts it again, maybe with its clock hours ahead.
func (p *rehearsal) kill(
	ctx, all context.Context, d disturbance, rng *rand.Rand,
) error {
	if d.jump > 0 {
		p.awaitStanding(ctx)
	}
	if err := p.server.kill(); err != nil {
		return err
	}
	p.timing.kills++
	killed := p.server.now()
	text := "server   SIGKILL, and started again"
	_ = pause(ctx, 100*time.Millisecond) // senders and destinations notice; then it starts anyway
	if d.jump > 0 {
		p.server.shift.Add(int64(d.jump))
		p.timing.shift += d.jump
		p.book.shift()
		text += fmt.Sprintf(", its clock %d h ahead", int(d.jump.Hours()))
	}
	p.show.happens(text)
	begun := time.Now()
	if err := p.server.start(ctx); err != nil {
		return err
	}
	p.unsettle(killed)
	if d.jump > 0 {
		ready := p.server.now()
		p.jumps = append(p.jumps, model.Jump{From: killed, To: ready, Settled: ready.Add(settle)})
	}
	p.show.happens("server   ready after " + seconds(time.Since(begun)))
	if d.jump > 0 {
		old := p.book.earlier(rng.IntN, min(lateMost, 3+int(p.book.accepted.Load())/lateShare))
		if len(old) > 0 {
			p.show.happens(fmt.Sprintf("senders  repeat %d callbacks, %d h late", len(old),
				int(d.jump.Hours())))
		}
		p.wg.Go(func() {
			late(all, p.sender, old, max(time.Millisecond,
				p.cfg.Duration/time.Duration(20*(len(old)+1))))
		})
	}
	return nil
}

// unsettle gives the server its time to notice again who stands still, if it was disturbed in it at
// a moment by its own clock.
func (p *rehearsal) unsettle(disturbed time.Time) {
	if n := len(p.jumps); n > 0 && p.jumps[n-1].Settled.After(disturbed) {
		p.jumps[n-1].Settled = p.server.now().Add(settle)
	}
}

// quiet is a log of which nothing is wanted: what the demo's listeners complain of is its doing.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
