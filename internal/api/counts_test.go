package api_test

import (
	"testing"

	"github.com/oncekit/once/queue"
)

func TestCountsAreInTheOrderOfTheirNamesAndStates(t *testing.T) {
	e := newEnv(t)
	e.get("/api/v1/counts").exactly(`{
  "callbacks": [],
  "effects": [],
  "tasks": [],
  "records": []
}
`)
	for range 3 {
		e.callback(func(a *queue.Arrival) { a.Source = "wms" })
	}
	e.settle("handler/h", queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent})
	e.callback()
	e.effect()
	e.event("startFE", "A", `{"roadway":""}`)
	e.event("startFE", "B", `{"roadway":""}`)
	e.event("finish", "B", `{}`)
	e.get("/api/v1/counts").exactly(`{
  "callbacks": [
    {
      "source": "rcs",
      "state": "pending",
      "n": 1
    },
    {
      "source": "rcs",
      "state": "done",
      "n": 3
    },
    {
      "source": "wms",
      "state": "pending",
      "n": 2
    },
    {
      "source": "wms",
      "state": "dead",
      "n": 1
    }
  ],
  "effects": [
    {
      "destination": "plant",
      "state": "pending",
      "n": 1
    }
  ],
  "tasks": [
    {
      "flow": "transport",
      "state": "finished",
      "n": 1
    },
    {
      "flow": "transport",
      "state": "running",
      "n": 1
    }
  ],
  "records": []
}
`)
	e.get("/api/v1/counts?state=dead").problem(400, "bad-request", "there is none here")
}
