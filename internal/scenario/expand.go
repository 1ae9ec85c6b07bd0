package scenario

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// maxFill bounds what a placeholder comes to, in bytes.
const maxFill = 64 << 10

var placeholder = regexp.MustCompile(`\$\{([^}]*)\}`)

// vars are the values of placeholders.
type vars struct {
	// key is different in each run of a scenario.
	key string
	// n counts the requests that are sent together, or the runs of the origin.
	n int
}

// expand replaces the placeholders of a text.
func expand(text string, v vars) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var failed error
	out := placeholder.ReplaceAllStringFunc(text, func(s string) string {
		value, err := v.value(s[len("${") : len(s)-1])
		if err != nil {
			failed = err
		}
		return value
	})
	return out, failed
}

func (v vars) value(name string) (string, error) {
	name, arg, hasArg := strings.Cut(name, ":")
	switch {
	case name == "key" && !hasArg:
		return v.key, nil
	case name == "n" && !hasArg:
		return strconv.Itoa(v.n), nil
	case name == "fill" || name == "random":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 || n > maxFill {
			return "", fmt.Errorf("${%s:%s}: want a number from 1 to %d", name, arg, maxFill)
		}
		if name == "fill" {
			return strings.Repeat("k", n), nil
		}
		return letters(n), nil
	case name == "byte":
		b, err := hex.DecodeString(arg)
		if err != nil || len(b) != 1 {
			return "", fmt.Errorf("${byte:%s}: want two hexadecimal digits", arg)
		}
		return string(b), nil
	}
	return "", fmt.Errorf("${%s} is unknown; there are key, n, fill:N, random:N and byte:HH", name)
}

func letters(n int) string {
	const all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	b := make([]byte, n)
	for i := range b {
		b[i] = all[rand.IntN(len(all))]
	}
	return string(b)
}
