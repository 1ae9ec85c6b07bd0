package scenario

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Settings is the name of the file in a folder of scenarios that says how the target has to be set
// up; it holds no scenarios.
const Settings = "gateway.yaml"

// Load reads the scenarios of all .yaml files in a folder. It refuses unknown members, and what
// makes no sense, with the file and the scenario.
func Load(folder fs.FS) ([]Scenario, error) {
	names, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list scenarios: %w", err)
	}
	slices.Sort(names)
	var all []Scenario
	seen := map[string]string{}
	for _, name := range names {
		if name == Settings {
			continue
		}
		list, err := loadFile(folder, name)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if first, ok := seen[s.ID]; ok {
				return nil, fmt.Errorf("%s: %s is in %s already", name, s.ID, first)
			}
			seen[s.ID] = name
		}
		all = append(all, list...)
	}
	if len(all) == 0 {
		return nil, errors.New("the folder has no scenarios")
	}
	return all, nil
}

func loadFile(folder fs.FS, name string) ([]Scenario, error) {
	text, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil, fmt.Errorf("read scenarios: %w", err)
	}
	var list []Scenario
	dec := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var more any
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: it has a second document", name)
	}
	for i := range list {
		list[i].File = name
		if err := list[i].check(); err != nil {
			return nil, fmt.Errorf("%s: scenario %d (%s): %w", name, i+1, list[i].ID, err)
		}
	}
	return list, nil
}

var (
	idPattern    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	groupPattern = regexp.MustCompile(`^[a-z]+$`)
)

// check refuses what makes no sense, and sets what is left out.
func (s *Scenario) check() error {
	if !idPattern.MatchString(s.ID) {
		return errors.New("its id has to be lower-case words with hyphens between them")
	}
	for name, text := range map[string]string{"title": s.Title, "why": s.Why} {
		if strings.TrimSpace(text) == "" || strings.Contains(strings.TrimSpace(text), "\n") {
			return fmt.Errorf("its %s has to be one line", name)
		}
	}
	if s.On == "" {
		s.On = "optional"
	}
	switch {
	case !groupPattern.MatchString(s.On):
		return fmt.Errorf("on is %q, want the name of a group of routes", s.On)
	case s.Runs == nil:
		return errors.New("runs is missing: how often the origin has to have run")
	case len(s.Steps) == 0:
		return errors.New("it has no steps")
	}
	for i := range s.Origin {
		if err := s.Origin[i].check(); err != nil {
			return fmt.Errorf("origin %d: %w", i+1, err)
		}
	}
	return s.checkSteps()
}

func (b *Behaviour) check() error {
	switch {
	case b.Status != 0 && (b.Status < 200 || b.Status > 599):
		return fmt.Errorf("status is %d", b.Status)
	case b.Close != "" && b.Close != "unanswered" && b.Close != "within":
		return fmt.Errorf("close is %q, want unanswered or within", b.Close)
	case b.Body != nil && b.Pieces != nil:
		return errors.New("it has both a body and pieces")
	case b.Delay > maxPause || b.Pause > maxPause:
		return fmt.Errorf("a delay is longer than %s", maxPause)
	}
	return checkHeaders(slices.Concat(b.Headers, b.Early, b.Trailers))
}

// checkSteps checks each step, and that it speaks only of steps before it.
func (s *Scenario) checkSteps() error {
	known := map[string]bool{} // true: in the background
	for i := range s.Steps {
		st := &s.Steps[i]
		if err := st.check(known); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if st.Name != "" {
			if _, ok := known[st.Name]; ok {
				return fmt.Errorf("step %d: the name %q is taken", i+1, st.Name)
			}
			known[st.Name] = st.Background
		}
	}
	for i, seen := range s.Seen {
		if _, ok := known[seen.BodyOf]; seen.BodyOf != "" && !ok {
			return fmt.Errorf("seen %d: there is no step %q", i+1, seen.BodyOf)
		}
	}
	return nil
}

func (st *Step) check(known map[string]bool) error {
	verbs := 0
	for _, set := range []bool{
		st.Send != nil, st.Together != nil, st.Await != "", st.HangUp != "", st.UntilRuns != 0,
		st.LetGo != 0, st.Wait != 0, st.Access != "",
	} {
		if set {
			verbs++
		}
	}
	switch {
	case verbs != 1:
		return fmt.Errorf("it has %d verbs, want one of send, together, await, hang_up, "+
			"until_runs, let_go, wait and access", verbs)
	case st.Send == nil && (st.Expect != nil || st.Background || st.Name != ""):
		return errors.New("only a step that sends has a name, expect and background")
	case st.Background && st.Name == "":
		return errors.New("a step in the background needs a name")
	case st.Send != nil && !st.Background && st.Expect == nil:
		return errors.New("it expects nothing")
	case max(st.Wait, st.RetryFor) > maxPause:
		return fmt.Errorf("wait or retry_for is longer than %s", maxPause)
	case st.RetryFor != 0 && (st.Send == nil || st.Background):
		return errors.New("retry_for belongs to a send that is not in the background")
	case st.Access != "" && st.Access != "allow" && st.Access != "forbid":
		return fmt.Errorf("access is %q, want allow or forbid", st.Access)
	}
	for _, name := range []string{st.Await, st.HangUp} {
		if name != "" && !known[name] {
			return fmt.Errorf("no step %q before it is in the background", name)
		}
	}
	if st.Send != nil {
		if err := st.Send.check(); err != nil {
			return err
		}
	}
	if st.Expect != nil {
		return st.Expect.check(known)
	}
	return st.Together.check(known)
}

func (t *Together) check(known map[string]bool) error {
	if t == nil {
		return nil
	}
	const most = 200
	if (t.Send == nil) == (len(t.Requests) == 0) || (t.Send == nil) != (t.Times == 0) ||
		t.Times > most {
		return fmt.Errorf("together: want send and times (up to %d), or requests", most)
	}
	if len(t.Answers) == 0 {
		return errors.New("together: it has no answers")
	}
	for _, r := range t.all() {
		if err := r.check(); err != nil {
			return err
		}
	}
	for i := range t.Answers {
		if err := t.Answers[i].check(known); err != nil {
			return err
		}
	}
	return nil
}

// all are the requests.
func (t *Together) all() []*Request {
	var list []*Request
	for range t.Times {
		list = append(list, t.Send)
	}
	for i := range t.Requests {
		list = append(list, &t.Requests[i])
	}
	return list
}

func (r *Request) check() error {
	const maxMembers = 1000
	switch {
	case r.Path != "" && !strings.HasPrefix(r.Path, "/"):
		return fmt.Errorf("path is %q, want one that begins with /", r.Path)
	case r.Body != nil && r.Base64 != nil:
		return errors.New("it has both body and base64")
	case len(r.Trailers) > 0 && r.Chunks == 0:
		return errors.New("trailers need chunks")
	case r.Gzip != nil && (r.Gzip.Members > maxMembers || r.Gzip.Level > gzip.BestCompression):
		return fmt.Errorf("gzip: want a level up to 9 and at most %d members", maxMembers)
	case r.Length != nil && r.Chunks != 0:
		return errors.New("it has both length and chunks")
	}
	if _, err := r.text(vars{}); err != nil {
		return err
	}
	return checkHeaders(slices.Concat(r.Headers, r.Trailers))
}

func checkHeaders(list []Header) error {
	for _, h := range list {
		if len(h) != 1 {
			return fmt.Errorf("a header line has %d names, want one", len(h))
		}
		for name, value := range h {
			if _, err := expand(value, vars{}); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
	}
	return nil
}

func (e *Expect) check(known map[string]bool) error {
	for _, name := range []string{e.SameAs, e.NotSameBody} {
		if _, ok := known[name]; name != "" && !ok {
			return fmt.Errorf("there is no step %q before it", name)
		}
	}
	for name, pattern := range e.Matches {
		if _, err := regexp.Compile(pattern); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	return nil
}
