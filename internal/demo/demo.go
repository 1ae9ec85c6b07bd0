// Package demo is `once demo`: a simulated plant that tries to make the real server lose something
// or do it twice, and that counts what comes out.
//
// The server is a process of its own. Robots' controllers send it callbacks as controllers do:
// late, twice, at the same moment, out of order, changed, cut off. Its destinations fail, hang and
// go away. It is frozen, killed by SIGKILL and started again, its clock put forward by hours. When
// all is over, package model says what had to come of it, and the demo compares.
//
// Nothing is left behind: the server ends with the demo, however that ends, and so does its folder.
package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oncekit/once/internal/demo/model"
)

// Config says what is demonstrated. Robots, Duration, Rate and Program are required.
type Config struct {
	// Robots at work, at most MaxRobots.
	Robots int
	// Duration of the load, MinDuration to MaxDuration.
	Duration time.Duration
	// Seed of everything that is drawn.
	Seed uint64
	// Rate is the number of requests a second, half of them repeats; at most MaxRate.
	Rate int
	// Store is the URL of a store that does not exist yet and is kept; empty: one in a temporary
	// folder.
	Store string
	// Program is the path of once itself.
	Program string
	// Out gets all that is shown.
	Out io.Writer
	// Live draws a table in place. Out is a terminal then.
	Live bool
	// Color allows colours.
	Color bool
	// Size returns the columns and rows of the terminal. Required with Live.
	Size func() (columns, rows int)
	// Tamper changes the evidence before it is judged, for tests. Default: nobody does.
	Tamper func(*model.Evidence)
}

// Bounds of a run: it is a demonstration on one machine, which keeps all that it sent in memory.
const (
	MaxRobots   = 2000
	MinDuration = 2 * time.Second
	MaxDuration = time.Hour
	MaxRate     = 5000
	// MaxRequests bounds rate times duration.
	MaxRequests = 1_000_000
)

// Check says what is wrong with the configuration, in the words of the command line.
func (c *Config) Check() error {
	switch {
	case c.Robots < 1 || c.Robots > MaxRobots:
		return fmt.Errorf("--robots %d: expected 1 to %d", c.Robots, MaxRobots)
	case c.Duration < MinDuration || c.Duration > MaxDuration:
		return fmt.Errorf("--duration %v: expected %v to %v", c.Duration, MinDuration,
			MaxDuration)
	case c.Rate < 1 || c.Rate > MaxRate:
		return fmt.Errorf("--rate %d: expected 1 to %d requests a second", c.Rate, MaxRate)
	case float64(c.Rate)*c.Duration.Seconds() > MaxRequests:
		return fmt.Errorf("--rate %d for %v: expected at most %d requests in all, since all of "+
			"them are remembered", c.Rate, c.Duration, MaxRequests)
	}
	return c.checkStore()
}

// checkStore refuses a store that somebody else may need: the demo shifts its clock by days.
func (c *Config) checkStore() error {
	if c.Store == "" {
		return nil
	}
	path, ok := strings.CutPrefix(c.Store, "sqlite:")
	if !ok || path == "" {
		return fmt.Errorf("--store %s: expected sqlite:PATH", c.Store)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("--store %s: %w", c.Store, err)
	}
	switch _, err := os.Stat(full); {
	case err == nil:
		return fmt.Errorf("--store %s: it exists already; the demo shifts the clock by days, so "+
			"it wants a new store of its own", c.Store)
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("--store %s: %w", c.Store, err)
	}
	c.Store = "sqlite:" + full
	return nil
}

// again is the command that does the same once more.
func (c *Config) again() string {
	text := "once demo"
	if c.Robots != DefaultRobots {
		text += fmt.Sprintf(" --robots %d", c.Robots)
	}
	if c.Duration != DefaultDuration {
		text += fmt.Sprintf(" --duration %v", c.Duration)
	}
	if c.Rate != DefaultRate(c.Robots) {
		text += fmt.Sprintf(" --rate %d", c.Rate)
	}
	return text + fmt.Sprintf(" --seed %d", c.Seed)
}

// What a run is like that nobody asks to be otherwise.
const (
	DefaultRobots   = 20
	DefaultDuration = 30 * time.Second
)

// DefaultRate is the rate for a number of robots: an event of each every 1.2 s, and its repeats.
func DefaultRate(robots int) int { return max(1, robots*5/3) }
