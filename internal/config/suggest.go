package config

import (
	"slices"
	"strings"
)

// maxListed bounds the names in an "expected one of".
const maxListed = 24

// oneOf lists the names that would have been right, after the nearest one.
func oneOf(wrong string, names []string) string {
	var b strings.Builder
	if near := nearest(wrong, names); near != "" {
		b.WriteString("did you mean " + quote(near) + "? ")
	}
	if len(names) == 0 {
		return b.String() + "none is declared"
	}
	list := names
	if len(list) > maxListed {
		list = append(slices.Clone(list[:maxListed]), "…")
	}
	if len(list) == 1 {
		return b.String() + "expected " + list[0]
	}
	return b.String() + "expected one of " + strings.Join(list, ", ")
}

// nearest returns the name that wrong was most likely meant to be; empty: none is near.
func nearest(wrong string, names []string) string {
	best, bestDistance := "", 3
	switch n := len([]rune(wrong)); {
	case n <= 1:
		bestDistance = 1
	case n <= 4:
		bestDistance = 2
	}
	for _, name := range names {
		if d := distance(strings.ToLower(wrong), strings.ToLower(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	if best == "" {
		for _, name := range names {
			if alike(wrong, name) {
				return name
			}
		}
	}
	return best
}

// alike tells names that differ in their separators only, or of which one begins the other.
func alike(a, b string) bool {
	strip := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(s))
	}
	a, b = strip(a), strip(b)
	const enough = 3
	return a == b || len(a) >= enough && len(b) >= enough &&
		(strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// maxCompared bounds the length of names that are compared, as the work grows with its square.
const maxCompared = 64

// distance counts insertions, deletions, replacements and swaps of neighbours.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	if len(x) > maxCompared || len(y) > maxCompared {
		return maxCompared
	}
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(x)][len(y)]
}
