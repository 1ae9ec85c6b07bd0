package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Env is what a configuration can take from outside. The zero value has nothing.
type Env struct {
	// Getenv returns an environment variable; nil: there are none. ONCE_LISTEN,
	// ONCE_ADMIN_LISTEN, ONCE_ADMIN_TOKEN and ONCE_STORE override the file.
	Getenv func(name string) (string, bool)
	// ReadFile reads a file with a secret; nil: none can be read.
	ReadFile func(path string) ([]byte, error)
	// Override is what the command line says. It goes before the environment.
	Override Override
}

// Override replaces settings of the file; empty fields replace nothing.
type Override struct {
	Listen, AdminListen, AdminToken, Store string
}

// OS returns the environment and files of the process.
func OS() Env { return Env{Getenv: os.LookupEnv, ReadFile: readSecret} }

// maxSecretBytes bounds a file that a text is taken from: a key or a password, not a data set.
const maxSecretBytes = 64 << 10

func readSecret(path string) ([]byte, error) { return readLimited(path, maxSecretBytes) }

// readLimited reads a file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read %s: larger than %d bytes", path, limit)
	}
	return b, nil
}

// filler fills ${env:NAME} and ${file:PATH} into the texts of a file.
type filler struct {
	env     Env
	dir     string // relative paths begin here
	varName *regexp.Regexp
}

func newFiller(env Env, dir string) *filler {
	return &filler{env: env, dir: dir, varName: regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)}
}

// complaint is what is wrong at an offset (in runes) of a text.
type complaint struct {
	offset int
	msg    string
}

// fill sets the node's text and template.
func (f *filler) fill(n *node) []complaint {
	n.text, n.template = n.raw, n.raw
	if !strings.Contains(n.raw, "${env:") && !strings.Contains(n.raw, "${file:") {
		return nil
	}
	var text, template strings.Builder
	var wrong []complaint
	for rest := n.raw; rest != ""; {
		part := nextPart(rest)
		at := utf8.RuneCountInString(n.raw[:len(n.raw)-len(rest)])
		rest = rest[len(part):]
		switch {
		case strings.HasPrefix(part, "$${env:"), strings.HasPrefix(part, "$${file:"):
			text.WriteString(part[1:])
			template.WriteString(part)
		case strings.HasPrefix(part, "${env:"), strings.HasPrefix(part, "${file:"):
			value, err := f.value(part)
			if err != nil {
				wrong = append(wrong, complaint{at, err.Error()})
			}
			n.filled = true
			text.WriteString(value)
			// What is filled in is never an expression.
			template.WriteString(strings.ReplaceAll(value, "${", "$${"))
		default:
			if i := referenceIn(part); i >= 0 {
				wrong = append(wrong, complaint{at + utf8.RuneCountInString(part[:i]),
					"a variable or file can't be filled into an expression;" +
						" expected it outside of ${…}"})
			}
			text.WriteString(part)
			template.WriteString(part)
		}
	}
	n.text, n.template = text.String(), template.String()
	return wrong
}

// referenceIn finds a reference inside of another ${…}.
func referenceIn(part string) int {
	if !strings.HasPrefix(part, "${") {
		return -1
	}
	for _, s := range []string{"${env:", "${file:"} {
		if i := strings.Index(part, s); i >= 0 {
			return i
		}
	}
	return -1
}

// nextPart cuts off one ${…} (or $${…}), or the text up to the next one.
func nextPart(s string) string {
	start := strings.Index(s, "${")
	if start < 0 {
		return s
	}
	if start > 0 && s[start-1] == '$' {
		start--
	}
	if start > 0 {
		return s[:start]
	}
	depth, quoted := 0, byte(0)
	simple := strings.HasPrefix(s, "${env:") || strings.HasPrefix(s, "${file:") || s[1] == '$'
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted != 0 && c == '\\':
			i++
		case quoted != 0:
			if c == quoted {
				quoted = 0
			}
		case !simple && (c == '"' || c == '\''):
			quoted = c
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return s[:i+1]
			}
		}
	}
	return s
}

// value returns what a reference stands for. Its errors don't hold the value.
func (f *filler) value(ref string) (string, error) {
	body, closed := strings.CutSuffix(strings.TrimPrefix(ref, "${"), "}")
	if !closed {
		return "", fmt.Errorf("%s has no end; expected a }", quote(ref))
	}
	if name, ok := strings.CutPrefix(body, "env:"); ok {
		return f.variable(name)
	}
	return f.file(strings.TrimPrefix(body, "file:"))
}

func (f *filler) variable(name string) (string, error) {
	if !f.varName.MatchString(name) {
		return "", fmt.Errorf("%s is no name of an environment variable;"+
			" expected letters, digits and _", quote(name))
	}
	if f.env.Getenv != nil {
		if v, ok := f.env.Getenv(name); ok {
			return v, nil
		}
	}
	return "", fmt.Errorf("the environment variable %s is not set;"+
		" expected it to hold the value of this text", name)
}

func (f *filler) file(path string) (string, error) {
	if path == "" {
		return "", fmt.Errorf("the path of a file is missing; expected ${file:PATH}")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.dir, path)
	}
	if f.env.ReadFile == nil {
		return "", fmt.Errorf("can't read %s: files are not read here", path)
	}
	b, err := f.env.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("can't read the file of this text: %w", err)
	}
	if !utf8.Valid(b) {
		return "", fmt.Errorf("the file %s is not valid UTF-8", path)
	}
	// An editor ends a file with a line break that is no part of a secret.
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}
