package metrics

import "slices"

// Family is one row of the table of metrics.
type Family struct {
	Name   string
	Type   string // counter, gauge or histogram
	Labels []string
	Help   string
}

// The names of the families.
const (
	nameReceipts    = "once_receipts_total"
	nameElements    = "once_elements_total"
	nameAck         = "once_ack_seconds"
	nameCallbacks   = "once_callbacks"
	nameAttempts    = "once_attempts_total"
	nameAttemptTime = "once_attempt_seconds"
	nameEffects     = "once_effects"
	nameEffectTries = "once_effects_total"
	nameTasks       = "once_tasks"
	nameConflicts   = "once_resource_conflicts_total"
	namePaused      = "once_destination_paused"
	nameOpen        = "once_destination_open"
	nameSourcePause = "once_source_paused"
	nameDatabase    = "once_database_open"
	nameRequests    = "once_requests_total"
	nameRequestTime = "once_request_seconds"
	nameRequestEnds = "once_request_attempts_total"
	nameRecords     = "once_records"
	nameDropped     = "once_rejected_dropped_total"
	nameReady       = "once_store_ready"
	nameBuild       = "once_build_info"
)

// Families returns the table of the metrics of once, in the order in which people read them. What
// Go and the process say of themselves (go_*, process_*) comes beside it.
func Families() []Family {
	return []Family{
		{nameReceipts, "counter", []string{"source", "outcome"},
			"Messages that were answered. The source is empty where no source has the path."},
		{nameElements, "counter", []string{"source", "outcome"},
			"Elements of messages that carry several callbacks, by what came of them."},
		{nameAck, "histogram", []string{"source"},
			"Time from the end of a message's headers to its answer, in seconds."},
		{nameCallbacks, "gauge", []string{"source", "state"},
			"Callbacks in the store."},
		{nameAttempts, "counter", []string{"source", "result"},
			"Tries of callbacks, by what came of them."},
		{nameAttemptTime, "histogram", []string{"kind", "source"},
			"Time that a try took, in seconds. The source of an effect is its destination."},
		{nameEffects, "gauge", []string{"destination", "state"},
			"Effects in the store."},
		{nameEffectTries, "counter", []string{"destination", "result"},
			"Tries of effects, by what came of them."},
		{nameTasks, "gauge", []string{"flow", "state"},
			"Tasks in the store."},
		{nameConflicts, "counter", nil,
			"Callbacks whose resource was taken when they were worked."},
		{namePaused, "gauge", []string{"destination"},
			"1 while the destination is paused because it refuses us."},
		{nameOpen, "gauge", []string{"destination"},
			"1 while effects are sent; 0: no connection, or paused."},
		{nameSourcePause, "gauge", []string{"source"},
			"1 while callbacks wait because their service or database refuses us."},
		{nameDatabase, "gauge", []string{"database"},
			"1 while documents are written; 0: it is not open yet, or gave no answer last time."},
		{nameDropped, "counter", []string{"source"},
			"Refused messages that were not kept for the operator."},
		{nameRequests, "counter", []string{"route", "outcome"},
			"Requests to the gateway, by what came of them. Without a route it is empty."},
		{nameRequestTime, "histogram", []string{"route"},
			"Time from a request's headers to the end of its answer, in seconds."},
		{nameRequestEnds, "counter", []string{"route", "result"},
			"Guarded attempts that ended, by what is kept of them."},
		{nameRecords, "gauge", []string{"state"},
			"Records in the store. Of those in Redis or a database there is no count."},
		{nameReady, "gauge", nil,
			"1 while the store can be written and the records' Redis or database answers, as of " +
				"this scrape."},
		{nameBuild, "gauge", []string{"version", "goversion"},
			"1, with the version of the program."},
	}
}

func family(name string) Family {
	all := Families()
	i := slices.IndexFunc(all, func(f Family) bool { return f.Name == name })
	return all[i] // the names are the constants above
}

// The bounds of the histograms, in seconds: from a fast disk's flush to a request that its sender
// gave up, and from a handler in memory to one that calls a slow service.
func ackBuckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
}

func requestBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

func attemptBuckets() []float64 {
	return []float64{.0005, .0025, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}
