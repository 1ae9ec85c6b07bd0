package demo

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oncekit/once/internal/demo/model"
)

const (
	// shownFaults and shownTraces bound what is printed of what is wrong. The rest is in a file.
	shownFaults = 12
	shownTraces = 2
	// behindMost is how late an event may be at the end of a load that was kept up with,
	// drainedSoon how long the rest of the work may take after it.
	behindMost  = time.Second
	drainedSoon = 10 * time.Second
)

// tell prints what came of a run.
func (p *rehearsal) tell(r *Result) error {
	var b strings.Builder
	p.sums(&b, r)
	if r.OK() {
		p.praise(&b, r)
	} else {
		p.blame(&b, r)
	}
	if _, err := io.WriteString(p.cfg.Out, b.String()); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	if r.Kept == "" {
		return nil
	}
	return p.keep(r)
}

// entry writes one number with what it means, in at most 80 columns.
func entry(b *strings.Builder, name string, n int, what string) {
	fmt.Fprintf(b, "%s\n", strings.TrimRight(fmt.Sprintf("  %-14s%9s   %s", name,
		number(int64(n)), what), " "))
}

// sums prints the numbers.
func (p *rehearsal) sums(b *strings.Builder, res *Result) {
	r := res.Report
	fmt.Fprintf(b, "\ncallbacks\n")
	entry(b, "sent", r.Sent, fmt.Sprintf("requests of %s for %s", plural(p.cfg.Robots, "robot"),
		plural(r.Tasks, "task")))
	entry(b, "accepted", r.Accepted, "different callbacks")
	entry(b, "duplicates", r.Duplicates, fmt.Sprintf("repeats, %s of them hours late",
		number(int64(r.Late))))
	entry(b, "conflicts", r.Conflicts, "other content, known key: the first one counts")
	entry(b, "no answer", r.Unanswered, "timed out, cut off or refused, and sent again")
	fmt.Fprintf(b, "what came of those accepted\n")
	entry(b, "applied", r.Accepted-r.Stale-r.Parked-r.Dead-r.Unrouted, "once each")
	entry(b, "  early", r.Early, "came before their predecessor, and waited for it")
	entry(b, "parked", r.Parked, "early ones whose predecessor never came")
	entry(b, "stale", r.Stale, "their task was past them: no effect")
	entry(b, "dead", r.Dead, "illegal for their task: kept for a person")
	entry(b, "unrouted", r.Unrouted, "nothing is declared for them: kept")
	fmt.Fprintf(b, "effects\n")
	entry(b, "expected", r.Expected, "by a model that shares no code with the server")
	entry(b, "seen", r.Seen, "at their destinations")
	entry(b, "repeated", r.Repeated, "arrivals under an id that had arrived before")
	entry(b, "alarms", r.Alarms, fmt.Sprintf("tasks that stood still when the clock jumped; %s due",
		number(int64(r.AlarmsDue))))
	entry(b, "lost", r.Lost, "")
	entry(b, "doubled", r.Doubled, "")
	fmt.Fprintf(b, "order kept   %s\n", verdict(r.Order, "break"))
	fmt.Fprintf(b, "one owner    %s  (%s of roadways and stations)\n", verdict(r.Owners, "fault"),
		plural(r.Owned, "turn"))
	fmt.Fprintf(b, "as expected  %s\n", verdict(r.Differ, "difference"))
	fmt.Fprintf(b, "replies      %s\n", replies(r.WrongReplies))
	came := "kept up"
	if !res.keptUp() {
		came = "did not keep up"
	}
	fmt.Fprintf(b, "rate         %d/s planned, %.0f/s sent, %.0f/s answered: %s\n"+
		"             (%s behind at the end, all done %s later)\n", res.wanted, res.sent,
		res.answered, came, seconds(res.behind), seconds(res.drained))
}

// keptUp reports whether the robots could keep to their timetable, and no work was left behind.
func (r *Result) keptUp() bool {
	return r.behind <= behindMost && r.drained <= drainedSoon && r.Undrained == ""
}

func verdict(n int, what string) string {
	if n == 0 {
		return "yes"
	}
	return "NO: " + plural(n, what)
}

// replies says whether senders were told what the server's file says.
func replies(wrong int) string {
	switch wrong {
	case 0:
		return "all as the file says"
	case 1:
		return "NO: 1 wrong"
	}
	return fmt.Sprintf("NO: %s wrong", number(int64(wrong)))
}

// praise ends a run that came out right.
func (p *rehearsal) praise(b *strings.Builder, r *Result) {
	freezes := ""
	if r.freezes > 0 {
		freezes = plural(r.freezes, "freeze") + ", "
	}
	fmt.Fprintf(b, "\n%s Nothing was lost and nothing was done twice, in spite of %s,\n  %s"+
		"%s of destinations and a clock put forward by %d h.\n", p.mark(green, "✓"),
		plural(r.kills, "SIGKILL"), freezes, plural(r.badDestinations, "failure"),
		int(r.shift.Hours()))
	fmt.Fprintf(b, "  The same again: %s\n", p.cfg.again())
	if p.cfg.Store != "" {
		fmt.Fprintf(b, "  Look into it:   once serve --store %s\n", p.cfg.Store)
	} else {
		fmt.Fprintf(b, "  Your own plant: once init, once serve --config once.yaml\n")
	}
}

// blame ends a run that came out wrong.
func (p *rehearsal) blame(b *strings.Builder, r *Result) {
	fmt.Fprintf(b, "\n%s It came out wrong: %s.\n", p.mark(red, "✗"), wrongs(r))
	if r.Undrained != "" {
		fmt.Fprintf(b, "  %s\n", r.Undrained)
	}
	for i, f := range r.Report.Faults {
		if i == shownFaults {
			fmt.Fprintf(b, "  … and %d more\n", len(r.Report.Faults)-i)
			break
		}
		fmt.Fprintf(b, "  %s\n", faultText(f))
	}
	for _, task := range faultyTasks(r.Report, shownTraces) {
		writeTrace(b, r.Report, task)
	}
	fmt.Fprintf(b, "\nAll of it, the server's log and its store are kept in %s\n", r.Kept)
	fmt.Fprintf(b, "The same again: %s\n", p.cfg.again())
}

func (p *rehearsal) mark(s style, text string) string {
	return line{{text, s}}.text(len(text), p.cfg.Color)
}

// wrongs counts the faults by their kind.
func wrongs(r *Result) string {
	var out []string
	for _, one := range []struct {
		n    int
		what string
	}{
		{r.Report.Lost, model.Lost}, {r.Report.Doubled, model.Doubled},
		{r.Report.Owners, model.TwoOwners}, {r.Report.Order, model.Order},
		{r.Report.Differ, model.Difference}, {r.Report.WrongReplies, model.WrongReply},
	} {
		if one.n > 0 {
			out = append(out, fmt.Sprintf("%d × %s", one.n, one.what))
		}
	}
	if r.Undrained != "" {
		out = append(out, "the server did not come to its end")
	}
	return strings.Join(out, ", ")
}

func faultText(f model.Fault) string {
	if f.Task == "" {
		return f.Kind + ": " + f.Text
	}
	return f.Kind + ": task " + f.Task + ": " + f.Text
}

// faultyTasks are the first n tasks that a fault is about.
func faultyTasks(r *model.Report, n int) (out []string) {
	seen := map[string]bool{"": true}
	for _, f := range r.Faults {
		if len(out) < n && !seen[f.Task] {
			out = append(out, f.Task)
		}
		seen[f.Task] = true
	}
	return out
}

func writeTrace(b *strings.Builder, r *model.Report, task string) {
	fmt.Fprintf(b, "\ntask %s\n", task)
	for _, l := range r.Trace(task) {
		fmt.Fprintf(b, "  %s\n", l)
	}
}

// keep writes all faults and the stories of their tasks into the folder that is kept.
func (p *rehearsal) keep(r *Result) error {
	var b strings.Builder
	for _, f := range r.Report.Faults {
		fmt.Fprintln(&b, faultText(f))
	}
	for _, task := range faultyTasks(r.Report, len(r.Report.Faults)) {
		writeTrace(&b, r.Report, task)
	}
	err := os.WriteFile(filepath.Join(p.dir, "faults.txt"), []byte(b.String()), 0o600)
	if err != nil {
		return fmt.Errorf("keep faults: %w", err)
	}
	return nil
}
