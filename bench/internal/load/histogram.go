package load

import (
	"math/bits"
	"time"
)

// A histogram has buckets of equal width between two powers of two, so a value is known to within
// 1/64 of itself.
const (
	subBits    = 6
	subBuckets = 1 << subBits
	powers     = 40 - subBits // up to 2^40 ns, 18 minutes
)

// histogram counts latencies.
type histogram struct {
	n      int64
	max    time.Duration
	counts [(powers + 1) * subBuckets]int64
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.n++
	h.max = max(h.max, d)
	h.counts[min(bucket(uint64(d)), len(h.counts)-1)]++
}

// bucket returns the bucket of a value: values below 64 have one each, then 64 a power of two.
func bucket(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)*subBuckets + int(v>>shift) - subBuckets
}

// upper returns the largest value of a bucket.
func upper(i int) uint64 {
	if i < subBuckets {
		return uint64(i)
	}
	shift := i/subBuckets - 1
	return (uint64(i%subBuckets+subBuckets)+1)<<shift - 1
}

// quantile returns the least bound that a share q of the values does not pass; 0 without values.
func (h *histogram) quantile(q float64) time.Duration {
	want := int64(q * float64(h.n))
	if float64(want) < q*float64(h.n) {
		want++
	}
	seen := int64(0)
	for i, c := range h.counts {
		seen += c
		if c > 0 && seen >= want {
			return min(time.Duration(upper(i)), h.max)
		}
	}
	return h.max
}
