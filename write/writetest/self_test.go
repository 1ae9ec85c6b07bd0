package writetest_test

import (
	"testing"

	"github.com/oncekit/once/write"
	"github.com/oncekit/once/write/writetest"
)

// The model keeps what it promises for all others.
func TestModel(t *testing.T) {
	t.Parallel()
	writetest.Run(t, func(*testing.T) writetest.Harness {
		m := writetest.NewModel()
		return writetest.Harness{
			Writer: m, Second: m,
			Read: func(_ *testing.T, in string, key any) (write.Fields, bool) {
				return m.Read(in, key)
			},
		}
	})
}
