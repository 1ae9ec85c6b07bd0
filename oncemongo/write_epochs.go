package oncemongo

import (
	"fmt"
	"sync"
)

// maxEpochs is how many documents' epochs a writer keeps in mind, besides those of the first.
const maxEpochs = 10_000

// epochs are the epochs that documents were seen to have, those of the first one left out. One that
// is out of date or forgotten costs round trips and does no harm. Safe for concurrent use.
type epochs struct {
	mu    sync.Mutex
	known map[string]int64
}

func newEpochs() *epochs { return &epochs{known: map[string]int64{}} }

func epochKey(j *writeJob) string {
	return fmt.Sprintf("%s\x00%T\x00%[2]v", j.event.In, keyToBSON(j.event.Key))
}

// get is an epoch that the job's document had at some time.
func (e *epochs) get(j *writeJob) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.known) == 0 {
		return 0
	}
	return e.known[epochKey(j)]
}

func (e *epochs) put(j *writeJob, epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if epoch == 0 && len(e.known) == 0 {
		return
	}
	key := epochKey(j)
	if epoch == 0 {
		delete(e.known, key)
		return
	}
	if _, found := e.known[key]; !found && len(e.known) >= maxEpochs {
		for some := range e.known {
			delete(e.known, some)
			break
		}
	}
	e.known[key] = epoch
}
