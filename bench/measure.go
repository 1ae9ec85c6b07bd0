package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oncekit/once/bench/internal/figure"
	"github.com/oncekit/once/bench/internal/table"
)

// options say what is measured.
type options struct {
	only    string
	runs    int
	seconds int
	long    int
	warm    int
	probes  int
	rows    int64
	quick   bool
	fresh   bool
	print   bool
	format  string
	once    string
	dir     string
	out     string
}

// fullRows are the rows of the large store of which the table speaks.
const fullRows = 10_000_000

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.only, "only", "", "figures to measure, with commas; empty: all")
	f.IntVar(&o.runs, "runs", 5, "how often each figure is measured, in turns")
	f.IntVar(&o.seconds, "seconds", 10, "length of a phase")
	f.IntVar(&o.long, "long", 60,
		"length of a phase that shows whether something grows, in seconds")
	f.IntVar(&o.warm, "warm", 2, "seconds of load before a phase")
	f.IntVar(&o.probes, "probes", 5, "steps of the search for the sustained rate")
	f.Int64Var(&o.rows, "rows", fullRows,
		"rows of the large store; a tenth of it wait, a hundredth of it are parked")
	f.BoolVar(&o.quick, "quick", false, "one short run of everything, to see that it works; "+
		"its numbers mean little and are kept apart")
	f.BoolVar(&o.fresh, "fresh", false, "forget the samples of earlier commands first")
	f.BoolVar(&o.print, "print", false, "measure nothing, print the samples of earlier commands")
	f.StringVar(&o.format, "format", "text", "of the table: text or markdown")
	f.StringVar(&o.once, "once", "", "the program to measure; empty: it is built")
	f.StringVar(&o.dir, "dir", "out/data", "where stores are made; large ones are kept there")
	f.StringVar(&o.out, "out", "out", "where results are written")
	f.Usage = func() { usage(f) }
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("what is %q? see -help", f.Arg(0))
	}
	if o.format != "text" && o.format != "markdown" {
		return o, fmt.Errorf("no format %q; there are text and markdown", o.format)
	}
	if o.quick {
		quick(&o, f)
	}
	return o, nil
}

// quick shortens what was not asked for.
func quick(o *options, f *flag.FlagSet) {
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, v := range map[string]*int{"runs": &o.runs, "seconds": &o.seconds, "warm": &o.warm} {
		if !given[name] {
			*v = map[string]int{"runs": 1, "seconds": 2, "warm": 1}[name]
		}
	}
	if !given["long"] {
		o.long = 5
	}
	if !given["probes"] {
		o.probes = 3
	}
	if !given["rows"] {
		o.rows = 200_000
	}
}

func usage(f *flag.FlagSet) {
	w := f.Output()
	_, _ = fmt.Fprint(w, "bench [flags] measures figures and prints them as a table:\n\n")
	for _, fig := range figure.Figures() {
		_, _ = fmt.Fprintf(w, "  %-20s %s\n", fig.Name, fig.About)
	}
	_, _ = fmt.Fprint(w, "\nIts parts are bench load, bench serve and bench fill; see their -help.",
		"\n\n")
	f.PrintDefaults()
}

// choose returns the figures that were asked for.
func choose(only string) ([]figure.Figure, error) {
	all := figure.Figures()
	if only == "" {
		return all, nil
	}
	var out []figure.Figure
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(all, func(f figure.Figure) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no figure %q; see -help", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// measure measures the figures in turns: each once, then each again. What was measured is kept
// after each, so that an interrupted command loses little.
func measure(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	figures, err := choose(o.only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	samples := filepath.Join(o.out, "samples.jsonl")
	switch { // what can't be compared is kept apart
	case o.quick:
		samples = filepath.Join(o.out, "quick.jsonl")
	case o.rows != fullRows:
		samples = filepath.Join(o.out, fmt.Sprintf("rows-%d.jsonl", o.rows))
	}
	if o.fresh {
		if err := os.Remove(samples); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forget samples: %w", err)
		}
	}
	if o.print {
		return report(o, samples, figures, nil)
	}
	b, err := bench(ctx, o, figures)
	if err != nil {
		return err
	}
	begun := time.Now()
	for n := range o.runs {
		for _, f := range figures {
			fmt.Printf("%s  %s, run %d of %d\n", time.Now().Format(time.TimeOnly), f.Name, n+1,
				o.runs)
			if err := f.Measure(ctx, b); err != nil {
				return fmt.Errorf("measure %s: %w", f.Name, err)
			}
			if err := table.Append(samples, b.Take()); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\nmeasured in %v\n\n", time.Since(begun).Round(time.Second))
	return report(o, samples, figures, args)
}

// bench builds what is measured.
func bench(ctx context.Context, o options, figures []figure.Figure) (*figure.Bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, err
	}
	b := &figure.Bench{
		Dir: dir, Phase: time.Duration(o.seconds) * time.Second,
		Long: time.Duration(o.long) * time.Second, Warm: time.Duration(o.warm) * time.Second,
		Remembered: o.rows, Pending: o.rows / 10, Parked: o.rows / 100, Probes: o.probes,
		Log: os.Stdout,
	}
	b.Self, b.Once = self, o.once
	if b.Once == "" {
		if b.Once, err = build(ctx, o.out, "once", "..", "./cmd/once"); err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(figures, func(f figure.Figure) bool { return f.River }) {
		if b.River, err = build(ctx, o.out, "river", "river", "."); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// build builds a program of the module in a folder and returns its path.
func build(ctx context.Context, out, name, module, pkg string) (string, error) {
	path, err := filepath.Abs(filepath.Join(out, "bin", name))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "-C", module, "build", "-o", path, pkg)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return path, nil
}

// report prints the table of figures with all samples that there are of them, and writes it to a
// file.
func report(o options, samples string, figures []figure.Figure, args []string) error {
	all, err := table.Read(samples)
	if err != nil {
		return err
	}
	var b strings.Builder
	machine(&b)
	if args != nil {
		fmt.Fprintf(&b, "command: go run . %s\n", strings.Join(args, " "))
	}
	if o.quick {
		fmt.Fprint(&b, "a quick run: its numbers mean little\n")
	}
	if o.rows != fullRows {
		fmt.Fprintf(&b, "the large stores had %d rows, not 10,000,000; the others in proportion\n",
			o.rows)
	}
	fmt.Fprintln(&b)
	rows := slices.DeleteFunc(figure.Rows(), func(r table.Row) bool {
		name, _, _ := strings.Cut(r.ID, ".")
		return !slices.ContainsFunc(figures, func(f figure.Figure) bool { return f.Name == name })
	})
	write := table.Print
	if o.format == "markdown" {
		write = table.Markdown
	}
	if err := write(&b, rows, all); err != nil {
		return err
	}
	if _, err := io.WriteString(os.Stdout, b.String()); err != nil {
		return err
	}
	name := filepath.Join(o.out, time.Now().Format("20060102-150405")+".txt")
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
