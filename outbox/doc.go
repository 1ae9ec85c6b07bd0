// Package outbox sends effects to their destinations.
//
// An effect is a row of package queue. [Attempt] makes one try of it: it asks the destination
// whether it may be tried, hands the message to the destination's [Sender], and says in a
// settlement what has to become of the row. [HTTP], [MQTT] and [Log] are the senders.
//
// What is promised: a row is done only when its destination has acknowledged it; each try carries
// the same id and the same bytes; a try of which nobody can know whether it had its effect is
// told from one that is known to have had none. What is not: that a destination which can't tell
// repeats apart sees a message once, unless its unknown tries are held for a person.
package outbox
