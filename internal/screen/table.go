package screen

import (
	"slices"
	"strings"
)

// Column is a column of a table.
type Column struct {
	Title string
	// Right puts texts to the right: numbers.
	Right bool
	// Min is how far a column may be cut on a terminal, in columns; 0: not at all.
	Min int
	// Want is how wide a column should be before those with a Drop of 5 or more are kept.
	Want int
	// Below gives the column, on a terminal too narrow for all there is, a line of its own under
	// each row, where it is whole. One column of a table may have it.
	Below bool
	// Drop lets a terminal that is too narrow do without the column; the largest goes first.
	Drop int
}

// Cell is a text in a table.
type Cell struct {
	Text  string
	Style Style
}

// Table aligns rows. Rows are kept until Flush, which may be called again and again: the columns
// stay as wide as they were.
type Table struct {
	s      *Screen
	cols   []Column
	widths []int
	rows   [][]Cell
	headed bool
}

// NewTable returns a table without rows.
func (s *Screen) NewTable(cols ...Column) *Table {
	t := &Table{s: s, cols: cols, widths: make([]int, len(cols))}
	for i, c := range cols {
		t.widths[i] = Columns(c.Title)
	}
	return t
}

// Row adds a row; its texts need not be clean. A row that is too short has empty cells.
func (t *Table) Row(cells ...Cell) {
	row := make([]Cell, len(t.cols))
	for i, c := range cells {
		row[i] = Cell{Clean(c.Text), c.Style}
		t.widths[i] = max(t.widths[i], Columns(row[i].Text))
	}
	t.rows = append(t.rows, row)
}

// Flush writes the rows that were added since the last time, and before the first ones the titles.
func (t *Table) Flush() error {
	if len(t.rows) == 0 {
		return nil
	}
	widths := t.fit()
	var b strings.Builder
	if !t.headed {
		t.headed = true
		titles := make([]Cell, len(t.cols))
		for i, c := range t.cols {
			titles[i] = Cell{c.Title, Bold}
		}
		t.line(&b, titles, widths)
	}
	for _, row := range t.rows {
		t.line(&b, row, widths)
		t.below(&b, row, widths)
	}
	t.rows = t.rows[:0]
	_, err := t.s.W.Write([]byte(b.String()))
	return err
}

// gap between two columns.
const gap = 2

// dropped is the width of a column that is left out.
const dropped = -1

// fit returns how wide each column is written: on a terminal all together no wider than it.
func (t *Table) fit() []int {
	widths := slices.Clone(t.widths)
	if !t.s.Terminal {
		return widths
	}
	room := t.s.Width()
	for i, c := range t.cols {
		if c.Below && total(widths) > room {
			widths[i] = dropped
		}
	}
	t.drop(widths, room, spare, func(c Column) int { return max(c.Min, c.Want) })
	t.drop(widths, room, 1, func(c Column) int { return c.Min })
	for total(widths) > room {
		i := t.widest(widths)
		if i < 0 {
			break // the terminal breaks the lines
		}
		widths[i]--
	}
	return widths
}

// spare is the Drop from which on a column is kept only where there is room enough.
const spare = 5

// drop leaves out columns of at least this Drop until the others have the room that they need.
func (t *Table) drop(widths []int, room, least int, need func(Column) int) {
	for {
		small := slices.Clone(widths)
		for i, c := range t.cols {
			if small[i] != dropped && c.Min > 0 {
				small[i] = min(small[i], need(c))
			}
		}
		i := t.unneeded(widths)
		if total(small) <= room || i < 0 || t.cols[i].Drop < least {
			return
		}
		widths[i] = dropped
	}
}

func total(widths []int) int {
	sum := -gap
	for _, w := range widths {
		if w != dropped {
			sum += w + gap
		}
	}
	return sum
}

// unneeded returns the column that goes first; -1: there is none.
func (t *Table) unneeded(widths []int) int {
	best := -1
	for i, c := range t.cols {
		if widths[i] != dropped && c.Drop > 0 && (best < 0 || c.Drop > t.cols[best].Drop) {
			best = i
		}
	}
	return best
}

// widest returns the widest column that may still be cut; -1: there is none.
func (t *Table) widest(widths []int) int {
	best := -1
	for i, c := range t.cols {
		if c.Min > 0 && widths[i] > c.Min && (best < 0 || widths[i] > widths[best]) {
			best = i
		}
	}
	return best
}

// below writes what of a row has a line of its own, moved to the right.
func (t *Table) below(b *strings.Builder, row []Cell, widths []int) {
	for i, c := range t.cols {
		if c.Below && widths[i] == dropped && row[i].Text != "" {
			b.WriteString(strings.Repeat(" ", gap) + t.s.Paint(row[i].Style, row[i].Text) + "\n")
		}
	}
}

// line writes one row. Nothing follows its last text.
func (t *Table) line(b *strings.Builder, row []Cell, widths []int) {
	pad := 0
	for i, cell := range row {
		if widths[i] == dropped {
			continue
		}
		text := cell.Text
		if t.s.Terminal {
			text = Cut(text, widths[i])
		}
		space := widths[i] - Columns(text)
		if t.cols[i].Right {
			pad, space = pad+space, 0
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", pad) + t.s.Paint(cell.Style, text))
			pad = 0
		}
		pad += space + gap
	}
	b.WriteString("\n")
}
