package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) manCommand() *cobra.Command {
	return takes(&cobra.Command{
		Use: "man DIR", GroupID: groupServer,
		Short: "Write the manual pages into a folder",
		Long: `Write the manual pages into a folder, one for each command. As root, for all users:

  once man /usr/local/share/man/man1`,
		RunE: func(c *cobra.Command, args []string) error {
			info, err := os.Stat(args[0])
			switch {
			case err != nil:
				return fmt.Errorf("write manual pages: %w", err)
			case !info.IsDir():
				return fmt.Errorf("write manual pages: %s is no folder", args[0])
			}
			n, err := writePages(c.Root(), args[0])
			if err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			a.say("wrote %s to %s", plural(n, "page"), args[0])
			return nil
		},
	}, 1, 1, "DIR")
}

// writePages writes the page of a command and those of the commands below it.
func writePages(c *cobra.Command, dir string) (n int, err error) {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	p := &manPage{w: f}
	p.write(c)
	if err := f.Close(); p.err == nil {
		p.err = err
	}
	if p.err != nil {
		return 0, p.err
	}
	n = 1
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() || below.Name() == "help" {
			continue
		}
		more, err := writePages(below, dir)
		if err != nil {
			return n, err
		}
		n += more
	}
	return n, nil
}

// manPage writes one page in the language of man(7). It remembers its first error.
type manPage struct {
	w   io.Writer
	err error
}

// line writes a line as it is.
func (p *manPage) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// roff escapes what has a meaning in the language: a backslash, a hyphen that is to be copied, the
// first character of a line, and what is not ASCII.
func roff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r >= 0x80:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	s := b.String()
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

func (p *manPage) write(c *cobra.Command) {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	p.line(`.TH "%s" "1" "" "once %s" "once"`, roff(strings.ToUpper(name)), roff(version()))
	p.line(".SH NAME\n%s \\- %s", roff(name), roff(lowerFirst(c.Short)))
	p.line(".SH SYNOPSIS\n.B %s", roff(synopsis(c)))
	p.line(".SH DESCRIPTION")
	p.text(describedBy(c))
	p.flags("OPTIONS", c.NonInheritedFlags())
	p.flags("OPTIONS FOR THE SERVER", c.InheritedFlags())
	p.commands(c)
	p.line(".SH EXIT STATUS")
	for _, s := range statuses() {
		p.line(".TP\n.B %d\n%s", s.status, roff(s.what))
	}
	if c.InheritedFlags().Lookup("server") != nil || c.Flags().Lookup("server") != nil {
		p.line(".SH ENVIRONMENT")
		for _, v := range variables() {
			p.line(".TP\n.B %s\n%s", v[0], roff(v[1]))
		}
	}
	if c.HasParent() {
		p.line(".SH SEE ALSO\n.BR %s (1)",
			roff(strings.ReplaceAll(c.Parent().CommandPath(), " ", "-")))
	}
}

func lowerFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

func synopsis(c *cobra.Command) string {
	if c.HasSubCommands() && c.RunE != nil && !c.HasParent() {
		return c.CommandPath() + " COMMAND"
	}
	return c.UseLine()
}

func describedBy(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// text writes paragraphs. Lines that begin with blanks stay as they are.
func (p *manPage) text(s string) {
	literal := false
	for line := range strings.SplitSeq(s, "\n") {
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !literal:
			p.line(".RS 2\n.nf")
			literal = true
		case !indented && literal:
			p.line(".fi\n.RE")
			literal = false
		}
		if line == "" {
			p.line(".PP")
			continue
		}
		p.line("%s", roff(strings.TrimPrefix(line, "  ")))
	}
	if literal {
		p.line(".fi\n.RE")
	}
}

func (p *manPage) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.line(".SH %s", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			value = ` \fI` + roff(value) + `\fR`
		}
		p.line(".TP\n\\fB%s\\fR%s\n%s", roff(name), value, roff(usage))
	})
}

func (p *manPage) commands(c *cobra.Command) {
	titled := false
	for _, below := range c.Commands() {
		if !below.IsAvailableCommand() || below.Name() == "help" {
			continue
		}
		if !titled {
			p.line(".SH COMMANDS")
			titled = true
		}
		p.line(".TP\n.BR %s (1)\n%s",
			roff(strings.ReplaceAll(below.CommandPath(), " ", "-")), roff(below.Short))
	}
}
