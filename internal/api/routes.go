package api

import (
	"net/http"

	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

// prefix of the API.
const prefix = "/api/v1"

// table returns the routes: what is registered, checked and described.
func (a *API) table() []route {
	all := []route{{
		method: http.MethodGet, pattern: "/", id: "getIndex", summary: "What there is",
		response: wire.Index{}, handle: a.index,
	}}
	all = append(all, a.healthRoutes()...)
	all = append(all, a.callbackRoutes()...)
	all = append(all, a.taskRoutes()...)
	all = append(all, a.resourceRoutes()...)
	all = append(all, a.effectRoutes()...)
	all = append(all, a.recordRoutes()...)
	return append(all, route{
		method: http.MethodGet, pattern: prefix + "/rejected", id: "listRejected",
		summary: "The latest messages that became no callback",
		query: []param{{name: "source", doc: "Of this source."},
			limitParam()},
		response: wire.RejectedList{}, handle: a.listRejected,
	}, route{
		method: http.MethodGet, pattern: prefix + "/destinations", id: "listDestinations",
		summary:  "The destinations, and why effects wait for one",
		response: wire.DestinationList{}, handle: a.listDestinations,
	}, route{
		method: http.MethodGet, pattern: prefix + "/sources", id: "listSources",
		summary:  "The sources, and why the callbacks of one wait",
		response: wire.SourceList{}, handle: a.listSources,
	}, route{
		method: http.MethodGet, pattern: prefix + "/nodes", id: "listNodes",
		summary: "The processes that serve the store, and what each works on",
		doc: "What is decided in the store's own transaction, such as a step of a flow, is in " +
			"nobody's hands.",
		response: wire.NodeList{}, handle: a.listNodes,
		refuses: []int{http.StatusNotFound},
	}, route{
		method: http.MethodGet, pattern: prefix + "/counts", id: "getCounts",
		summary:  "How many callbacks, effects and tasks are in each state",
		doc:      "These are counters that the store keeps: nothing is scanned.",
		response: wire.Counts{}, handle: a.counts,
	}, route{
		method: http.MethodGet, pattern: prefix + "/openapi.yaml", id: "getOpenAPI",
		summary: "This description", produces: "application/yaml", raw: a.describe,
	})
}

func (a *API) healthRoutes() []route {
	return []route{{
		method: http.MethodGet, pattern: "/healthz", id: "getHealth",
		summary:  "The process is alive",
		response: wire.Health{}, raw: a.healthz, open: true,
	}, {
		method: http.MethodGet, pattern: "/readyz", id: "getReadiness",
		summary:  "The store can be written",
		response: wire.Health{}, raw: a.readyz, open: true,
		refuses: []int{http.StatusServiceUnavailable},
	}, {
		method: http.MethodGet, pattern: "/metrics", id: "getMetrics",
		summary: "Metrics in the text format of Prometheus", produces: "text/plain", raw: a.metrics,
	}}
}

func (a *API) callbackRoutes() []route {
	one := prefix + "/callbacks/{id}"
	return []route{{
		method: http.MethodGet, pattern: prefix + "/callbacks", id: "listCallbacks",
		summary: "A page of callbacks, latest first",
		doc:     pageDoc,
		query: append([]param{
			{name: "source", doc: "From this source."},
			{name: "state", doc: "In this state.", enum: states(queue.Callback)},
			{name: "event", doc: "With this event."},
			{name: "task", doc: "Of this task."},
			{name: "key", doc: "With this text as any part of the key."},
		}, pageParams()...),
		response: wire.CallbackPage{}, handle: a.listCallbacks,
	}, {
		method: http.MethodGet, pattern: one, id: "getCallback",
		summary:  "A callback with everything that is kept about it",
		response: wire.CallbackDetail{}, handle: a.getCallback,
	}, {
		method: http.MethodPost, pattern: one + "/retry", id: "retryCallback",
		summary: "Make a callback due again that is parked, unrouted, dead or held",
		doc:     "An unrouted one gets the place that it has by today's configuration.",
		request: wire.Change{}, response: wire.CallbackDetail{}, handle: a.retryCallback,
	}, {
		method: http.MethodPost, pattern: one + "/discard", id: "discardCallback",
		summary: "Give up a callback that is not finished and not being worked",
		request: wire.Change{}, response: wire.CallbackDetail{}, handle: a.discardCallback,
	}, {
		method: http.MethodPost, pattern: one + "/accept", id: "acceptCallback",
		summary: "Make a conflicting arrival a new revision, worked like a callback",
		doc: "Answers with the callback; `accepted` of the receipt, and Location, name the " +
			"revision.",
		request: wire.AcceptChange{}, response: wire.CallbackDetail{}, handle: a.acceptCallback,
	}}
}

const pageDoc = "A page may be shorter than its limit, even empty, while `next` is not: then as " +
	"many rows were looked at as a page may cost."

func (a *API) taskRoutes() []route {
	one := prefix + "/tasks/{flow}/{id}"
	return []route{{
		method: http.MethodGet, pattern: prefix + "/tasks", id: "listTasks",
		summary: "A page of tasks, those that were created last first",
		doc:     pageDoc,
		query: append([]param{
			{name: "flow", doc: "Of this flow."},
			{name: "state", doc: "In this state."},
		}, pageParams()...),
		response: wire.TaskPage{}, handle: a.listTasks,
	}, {
		method: http.MethodGet, pattern: one, id: "getTask",
		summary:  "A task with its history and the events that are legal now",
		response: wire.Task{}, handle: a.getTask,
	}, {
		method: http.MethodPost, pattern: one + "/move", id: "moveTask",
		summary: "Put a task into another state",
		doc: "Fields stay as they are. A move into a final state frees what the task owns. " +
			"Parked callbacks of the task are looked at again.",
		request: wire.MoveChange{}, response: wire.Task{}, handle: a.moveTask,
	}}
}

func (a *API) resourceRoutes() []route {
	one := prefix + "/resources/{kind}/{name}"
	return []route{{
		method: http.MethodGet, pattern: prefix + "/resources", id: "listResources",
		summary:  "A page of resources by kind and name",
		query:    append([]param{{name: "kind", doc: "Of this kind."}}, pageParams()...),
		response: wire.ResourcePage{}, handle: a.listResources,
	}, {
		method: http.MethodPost, pattern: one + "/release", id: "releaseResource",
		summary: "Free a resource, as its owner would",
		doc:     "One that is being freed is free at once: what it waits for has happened.",
		request: wire.ReleaseChange{}, response: wire.Resource{}, handle: a.releaseResource,
	}, {
		method: http.MethodPost, pattern: one + "/transfer", id: "transferResource",
		summary: "Make another task the owner, with a new fence and without effects",
		request: wire.TransferChange{}, response: wire.Resource{}, handle: a.transferResource,
	}}
}

func (a *API) effectRoutes() []route {
	one := prefix + "/effects/{id}"
	return []route{{
		method: http.MethodGet, pattern: prefix + "/effects", id: "listEffects",
		summary: "A page of effects, latest first",
		doc:     pageDoc,
		query: append([]param{
			{name: "state", doc: "In this state.", enum: states(queue.Effect)},
			{name: "destination", doc: "To this destination."},
			{name: "name", doc: "With this name."},
			{name: "task", doc: "Of this task."},
		}, pageParams()...),
		response: wire.EffectPage{}, handle: a.listEffects,
	}, {
		method: http.MethodGet, pattern: one, id: "getEffect",
		summary:  "An effect with everything that is kept about it",
		response: wire.EffectDetail{}, handle: a.getEffect,
	}, {
		method: http.MethodPost, pattern: one + "/retry", id: "retryEffect",
		summary: "Send an effect again that is dead or held",
		request: wire.Change{}, response: wire.EffectDetail{}, handle: a.retryEffect,
	}, {
		method: http.MethodPost, pattern: one + "/discard", id: "discardEffect",
		summary: "Give up an effect that is not finished and not being sent",
		doc:     "What its acknowledgement would have set free becomes free.",
		request: wire.Change{}, response: wire.EffectDetail{}, handle: a.discardEffect,
	}, {
		method: http.MethodPost, pattern: one + "/done", id: "ackEffect",
		summary: "Say that an effect happened which is held, dead or expired",
		doc:     "What its acknowledgement would have set free becomes free.",
		request: wire.Change{}, response: wire.EffectDetail{}, handle: a.ackEffect,
	}}
}
