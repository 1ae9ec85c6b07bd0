package oncesqlite

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/oncekit/once"
)

// present tells whether the files that are written are still those that their paths name. One that
// was removed or replaced can be written as before, but nobody will ever read it again.
type present struct {
	files []openFile // as they were opened; none: nothing is known of files
	// gone is true from when they were missed until they are seen again.
	gone atomic.Bool
}

type openFile struct {
	path string
	info os.FileInfo
}

// remember notes which files were opened.
func (p *present) remember(paths ...string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("look at what was opened: %w", err)
		}
		p.files = append(p.files, openFile{path, info})
	}
	return nil
}

// check returns an error wrapping once.ErrUnavailable if one of the files is not where it was.
func (p *present) check() error {
	for _, f := range p.files {
		now, err := os.Stat(f.path)
		if err == nil && os.SameFile(f.info, now) {
			continue
		}
		p.gone.Store(true)
		if err != nil {
			return fmt.Errorf("%w: the file that is in use is missed; put it back, or start "+
				"again: %w", once.ErrUnavailable, err)
		}
		return fmt.Errorf("%w: %s was replaced while it is in use; put it back, or start again",
			once.ErrUnavailable, f.path)
	}
	p.gone.Store(false)
	return nil
}
