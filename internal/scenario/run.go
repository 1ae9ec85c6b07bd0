package scenario

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Config says what is held to the scenarios. Target and Origin are required.
type Config struct {
	// Target is the base URL of the implementation: http://HOST:PORT. It sends on to the origin.
	Target *url.URL
	Origin *Origin
	// Parallel is how many scenarios run side by side. Default 8.
	Parallel int
	// Patience bounds each exchange, and each wait for something to happen. A target that makes a
	// repeat wait has to have answered within it. Default 15s.
	Patience time.Duration
}

const (
	defaultParallel = 8
	defaultPatience = 15 * time.Second
	// maxScenario bounds a scenario.
	maxScenario = time.Minute
	// probes bounds the tries to reach the origin through the target before anything is run.
	probes = 20
)

// Result is what came of a scenario.
type Result struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Why      string   `json:"why"`
	Cases    []string `json:"cases,omitempty"`
	File     string   `json:"file"`
	Passed   bool     `json:"passed"`
	Problems []string `json:"problems,omitempty"`
	// Took is in nanoseconds.
	Took time.Duration `json:"took_ns"`
}

// Run runs scenarios against a target and returns a result for each, in their order. The error says
// why nothing could be run: the target does not reach the origin, or the context ended.
func Run(ctx context.Context, list []Scenario, cfg Config) ([]Result, error) {
	if cfg.Parallel <= 0 {
		cfg.Parallel = defaultParallel
	}
	if cfg.Patience <= 0 {
		cfg.Patience = defaultPatience
	}
	if err := probe(ctx, cfg); err != nil {
		return nil, err
	}
	results := make([]Result, len(list))
	places := make(chan struct{}, cfg.Parallel)
	var group sync.WaitGroup
	for i := range list {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			results[i] = one(ctx, &list[i], cfg)
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("run scenarios: %w", err)
	}
	return results, nil
}

// probe asks whether the target sends on to the origin.
func probe(ctx context.Context, cfg Config) error {
	s := &Scenario{On: "open"}
	var last *reply
	for n := range probes {
		p := newPlay(s, cfg)
		b, err := (&Request{Method: "GET", Path: "/probe"}).build(p.where, vars{})
		if err != nil {
			return err
		}
		x, err := begin(ctx, cfg.Target, cfg.Patience, b)
		if err != nil {
			p.end()
			return err
		}
		last = x.wait()
		reached := p.act.count() > 0
		p.end()
		if reached {
			return nil
		}
		if !pauseFor(ctx, time.Duration(n)*10*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("the target %s does not send on to the origin at %s: GET /open/… got %s",
		cfg.Target, cfg.Origin.Address(), last)
}

func one(ctx context.Context, s *Scenario, cfg Config) Result {
	ctx, cancel := context.WithTimeout(ctx, maxScenario)
	defer cancel()
	start := time.Now()
	p := newPlay(s, cfg)
	defer p.end()
	r := Result{ID: s.ID, Title: s.Title, Why: s.Why, Cases: s.Cases, File: s.File}
	r.Problems = p.play(ctx)
	r.Passed = len(r.Problems) == 0
	r.Took = time.Since(start)
	return r
}

// play is one run of a scenario.
type play struct {
	s      *Scenario
	origin *Origin
	target *url.URL
	where  where
	// patience is that of the configuration.
	patience time.Duration
	act      *act
	// running are exchanges in the background, by name; replies what came back.
	running map[string]*exchange
	replies map[string]*reply
	// expected has what is expected of exchanges in the background.
	expected map[string]*Expect
}

func newPlay(s *Scenario, cfg Config) *play {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails, as crypto/rand documents
	token := hex.EncodeToString(random)
	p := &play{
		s: s, origin: cfg.Origin, target: cfg.Target,
		where: where{
			host: cfg.Target.Host, base: strings.TrimSuffix(cfg.Target.Path, "/"), on: s.On,
			token: token,
		},
		act: &act{behaviours: s.Origin, key: token, patience: cfg.Patience}, patience: cfg.Patience,
		running: map[string]*exchange{}, replies: map[string]*reply{},
		expected: map[string]*Expect{},
	}
	p.origin.enter(token, p.act)
	return p
}

// end lets go of everything that still waits.
func (p *play) end() {
	p.act.letAllGo()
	for _, x := range p.running {
		x.hangUp()
	}
	p.origin.leave(p.where.token)
}

// play takes the steps, up to the first that differs, and compares how often the origin ran.
func (p *play) play(ctx context.Context) []string {
	for i := range p.s.Steps {
		st := &p.s.Steps[i]
		problems, err := p.step(ctx, st)
		if err != nil {
			problems = append(problems, err.Error())
		}
		if len(problems) > 0 {
			return named(fmt.Sprintf("step %d%s: ", i+1, quoted(st.Name)), problems)
		}
	}
	for name := range p.running {
		if problems := p.await(name); len(problems) > 0 {
			return named(fmt.Sprintf("step%s: ", quoted(name)), problems)
		}
	}
	var d diff
	if got := p.act.count(); got != *p.s.Runs {
		d.add("the origin ran %d times, want %d", got, *p.s.Runs)
		return d.list
	}
	p.act.mu.Lock()
	defer p.act.mu.Unlock()
	for i := range p.s.Seen {
		if i >= len(p.act.runs) {
			d.add("the origin has no run %d to look at", i+1)
			break
		}
		problems := p.s.Seen[i].problems(p.act.runs[i], p.replies, vars{p.act.key, 1})
		d.list = append(d.list, named(fmt.Sprintf("the origin's run %d: ", i+1), problems)...)
	}
	return d.list
}

func quoted(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", name)
}

func named(prefix string, problems []string) []string {
	list := make([]string, len(problems))
	for i, text := range problems {
		list[i] = prefix + text
	}
	return list
}

func (p *play) step(ctx context.Context, st *Step) ([]string, error) {
	switch {
	case st.Send != nil:
		return p.send(ctx, st)
	case st.Together != nil:
		return p.together(ctx, st.Together)
	case st.Await != "":
		return p.await(st.Await), nil
	case st.HangUp != "":
		return p.hangUp(st.HangUp), nil
	case st.UntilRuns != 0:
		return nil, p.act.until(ctx, st.UntilRuns)
	case st.LetGo != 0:
		return nil, p.act.letGo(st.LetGo)
	case st.Access != "":
		p.act.setForbidden(st.Access == "forbid")
		return nil, nil
	}
	if !pauseFor(ctx, st.Wait) {
		return nil, errors.New("there is no time left")
	}
	return nil, nil
}

func (p *play) send(ctx context.Context, st *Step) ([]string, error) {
	b, err := st.Send.build(p.where, vars{p.act.key, 1})
	if err != nil {
		return nil, err
	}
	const pause = 50 * time.Millisecond
	for end := time.Now().Add(st.RetryFor); ; {
		x, err := begin(ctx, p.target, p.patience, b)
		if err != nil {
			return nil, err
		}
		if st.Background {
			p.running[st.Name], p.expected[st.Name] = x, st.Expect
			return nil, nil
		}
		got := x.wait()
		if st.Name != "" {
			p.replies[st.Name] = got
		}
		problems := st.Expect.problems(got, p.replies, vars{p.act.key, 1})
		if len(problems) == 0 || time.Now().After(end) || !pauseFor(ctx, pause) {
			return problems, nil
		}
	}
}

// hangUp closes the connection of an exchange in the background.
func (p *play) hangUp(name string) []string {
	x := p.running[name]
	if x == nil {
		return []string{fmt.Sprintf("%s was awaited before, or hung up", name)}
	}
	x.hangUp()
	p.replies[name] = x.got
	delete(p.running, name)
	return nil
}

// await waits for an exchange in the background and compares its answer.
func (p *play) await(name string) []string {
	x := p.running[name]
	if x == nil {
		return []string{fmt.Sprintf("%s was awaited before, or hung up", name)}
	}
	got := x.wait()
	delete(p.running, name)
	p.replies[name] = got
	if want := p.expected[name]; want != nil {
		return want.problems(got, p.replies, vars{p.act.key, 1})
	}
	return nil
}
