package oncemem

import "container/heap"

// agingBlock is how many records a block of the heap has room for.
const agingBlock = 256

// aging is a heap of the records that can expire, by the earliest time at which they may. It is
// kept in blocks, since millions of records would be copied whenever one array grows.
type aging struct {
	blocks []*[agingBlock]aged
	n      int
}

type aged struct {
	at instant
	r  *record
}

func (a *aging) at(i int) *aged { return &a.blocks[i/agingBlock][i%agingBlock] }

// Len implements heap.Interface.
func (a *aging) Len() int { return a.n }

// Less implements heap.Interface.
func (a *aging) Less(i, j int) bool { return a.at(i).at < a.at(j).at }

// Swap implements heap.Interface.
func (a *aging) Swap(i, j int) {
	x, y := a.at(i), a.at(j)
	*x, *y = *y, *x
	x.r.place, y.r.place = int32(i), int32(j)
}

// Push implements heap.Interface.
func (a *aging) Push(x any) {
	e, _ := x.(aged)
	if a.n == len(a.blocks)*agingBlock {
		a.blocks = append(a.blocks, new([agingBlock]aged))
	}
	e.r.place = int32(a.n)
	*a.at(a.n) = e
	a.n++
}

// Pop implements heap.Interface. One empty block is kept.
func (a *aging) Pop() any {
	a.n--
	last := *a.at(a.n)
	*a.at(a.n) = aged{}
	if full := (a.n + agingBlock - 1) / agingBlock; len(a.blocks) > full+1 {
		a.blocks[full+1] = nil
		a.blocks = a.blocks[:full+1]
	}
	last.r.place = -1
	return last
}

func (s *Store) sweepShard(sh *shard, now instant, limit int) int {
	n := 0
	for n < limit && sh.aging.n > 0 {
		first := sh.aging.at(0)
		switch {
		case now < first.at:
			return n
		case first.r.expired(now):
			s.remove(sh, first.r)
			n++
		default: // an arrival came since it was put in
			first.at = first.r.expires()
			heap.Fix(&sh.aging, 0)
		}
	}
	return n
}

func (sh *shard) enterAging(r *record) {
	sh.aging.Push(aged{r.expires(), r})
	heap.Fix(&sh.aging, sh.aging.n-1)
}

func (sh *shard) leaveAging(r *record) {
	if r.place >= 0 {
		heap.Remove(&sh.aging, int(r.place))
	}
}
