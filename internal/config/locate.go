package config

// locate returns the place of the character at offset (in runes) in a node's text. For a text in
// which something was filled in it is the place where the text begins, for one of a preset the
// place where that is asked for.
func (s *source) locate(n *node, offset int) place {
	if n.kind != textKind || n.filled || n.preset != "" || offset < 0 {
		return n.at
	}
	switch n.style {
	case literal, folded:
		return s.locateBlock(n, offset)
	case double:
		return s.locateFlow(place{n.at.line, n.at.col + 1}, offset, doubleWidth)
	case single:
		return s.locateFlow(place{n.at.line, n.at.col + 1}, offset, singleWidth)
	}
	return s.locateFlow(n.at, offset, plainWidth)
}

// width says how many characters of the source one character of the text takes.
type width func(rest []rune) int

func plainWidth([]rune) int { return 1 }

func singleWidth(rest []rune) int {
	if len(rest) > 1 && rest[0] == '\'' && rest[1] == '\'' {
		return 2
	}
	return 1
}

// doubleWidth knows the escapes of YAML 1.2, section 5.7.
func doubleWidth(rest []rune) int {
	if rest[0] != '\\' || len(rest) < 2 {
		return 1
	}
	switch rest[1] {
	case 'x':
		return 4
	case 'u':
		return 6
	case 'U':
		return 10
	}
	return 2
}

// locateFlow walks a plain or quoted text. A line break is folded to one blank, the blanks around
// it are dropped (YAML 1.2, section 6.5).
func (s *source) locateFlow(at place, offset int, w width) place {
	for range offset {
		line := s.line(at.line)
		if blankFrom(line, at.col-1) {
			if at.line >= len(s.lines) {
				return at
			}
			at = place{at.line + 1, firstColumn(s.line(at.line + 1))}
			continue
		}
		at.col += w(line[at.col-1:])
	}
	return at
}

// locateBlock walks a block text, whose lines begin below its header.
func (s *source) locateBlock(n *node, offset int) place {
	first := n.at.line + 1
	for first < len(s.lines) && blankFrom(s.line(first), 0) {
		first++
	}
	indent := firstColumn(s.line(first))
	text := []rune(n.text)
	at := place{n.at.line + 1, indent}
	for i := range min(offset, len(text)) {
		line := s.line(at.line)
		if text[i] == '\n' || n.style == folded && at.col > len(line) {
			if at.line >= len(s.lines) {
				break
			}
			at = place{at.line + 1, indent}
			continue
		}
		at.col++
	}
	return at
}

func blankFrom(line []rune, from int) bool {
	for i := from; i < len(line); i++ {
		if line[i] != ' ' && line[i] != '\t' {
			return false
		}
	}
	return true
}

func firstColumn(line []rune) int {
	for i, r := range line {
		if r != ' ' && r != '\t' {
			return i + 1
		}
	}
	return 1
}
