package oncemem_test

import (
	"testing"

	"github.com/oncekit/once/oncemem"
	"github.com/oncekit/once/oncetest"
)

func BenchmarkStore(b *testing.B) {
	s, err := oncemem.New(oncemem.Config{SingleInstance: true, MaxBytes: 4 << 30})
	if err != nil {
		b.Fatal(err)
	}
	oncetest.Bench(b, s)
}
