package outbox

// Lane returns the lane in which the effects of a destination wait.
func Lane(destination string) string { return "effect/" + destination }
